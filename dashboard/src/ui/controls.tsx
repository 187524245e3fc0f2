// SPDX-License-Identifier: Apache-2.0
// The few kinds of controls that the pages are made of.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Problem, isKeyWanted } from "../lib/api.ts";

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [value: T, text: string])[];
  onChange: (value: T) => void;
}

/** One of a few that are all seen. */
export function Segments<T extends string>({ label, value, options, onChange }: ChoiceProps<T>) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button
          type="button"
          key={option}
          aria-pressed={option === value}
          onClick={() => onChange(option)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** One of many. */
export function Choice<T extends string>({ label, value, options, onChange }: ChoiceProps<T>) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface NumberProps {
  label: string;
  value: number;
  min: number;
  max: number;
  onChange: (value: number) => void;
}

export function NumberField({ label, value, min, max, onChange }: NumberProps) {
  const take = (text: string) => {
    const given = Math.round(Number(text));
    if (text !== "" && given >= min && given <= max) onChange(given);
  };
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="number"
        value={value}
        min={min}
        max={max}
        onChange={(event) => take(event.currentTarget.value)}
      />
    </label>
  );
}

export function Check({
  label,
  isOn,
  onChange,
}: {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [said, setSaid] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setSaid("Copied"),
      () => setSaid("Select the text to copy it"),
    );
  return (
    <span class="copy">
      <button type="button" onClick={copy}>
        {label}
      </button>
      <span role="status">{said}</span>
    </span>
  );
}

/** Text to be taken elsewhere. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <div class="snippet">
      <pre tabIndex={0} role="region" aria-label={label}>
        <code>{text}</code>
      </pre>
      <Copy text={text} />
    </div>
  );
}

/** What went wrong, as the service says it, with the place in the request. */
export function Failure({ error }: { error: Error }) {
  const problem = error instanceof Problem ? error : undefined;
  const title =
    problem?.title ??
    (error instanceof TypeError ? "The service does not answer" : "That did not work");
  return (
    <div class="failure" role="alert">
      <strong>{title}</strong>
      {problem?.pointer && <code>{problem.pointer}</code>}
      <p>{isKeyWanted(problem) ? "Give one that is, in the field above." : error.message}</p>
    </div>
  );
}

export function Panel({
  title,
  children,
  class: name = "",
}: {
  title: string;
  children: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`panel ${name}`}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A table with its first column as the rows' names. */
export function Table({
  caption,
  head,
  rows,
}: {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
}) {
  return (
    <div class="scrolls" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((text) => (
              <th scope="col" key={text}>
                {text}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>
              {cells.map((cell, column) =>
                column === 0 ? (
                  <th scope="row" key={column}>
                    {cell}
                  </th>
                ) : (
                  <td key={column}>{cell}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Fact = readonly [name: string, value: ComponentChildren];

/** Names and values; what is false is left out. */
export function Facts({ facts }: { facts: readonly (Fact | false | undefined)[] }) {
  return (
    <dl>
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
