// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system says, or as chosen here.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";
const KEPT = "attentiond-theme";
export const ThemeContext = createContext<Theme>("light");
export const useTheme = (): Theme => useContext(ThemeContext);

/** The theme and what chooses the other one. */
export function useThemeChoice(): [Theme, () => void] {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [system, setSystem] = useState<Theme>(query.matches ? "dark" : "light");
  const [chosen, setChosen] = useState(localStorage.getItem(KEPT) as Theme | null);
  useEffect(() => {
    const follow = () => setSystem(query.matches ? "dark" : "light");
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  const theme = chosen ?? system;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const choose = () => {
    const other = theme === "dark" ? "light" : "dark";
    localStorage.setItem(KEPT, other);
    setChosen(other);
  };
  return [theme, choose];
}
