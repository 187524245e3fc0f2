// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { usePlace, type Params } from "./lib/route.ts";
import { MapsPage } from "./maps/maps_page.tsx";
import { HelpPage } from "./pages/help.tsx";
import { LabPage } from "./pages/lab.tsx";
import { LatencyPage } from "./pages/latency.tsx";
import { SendPage } from "./pages/send.tsx";
import { useDrop } from "./pages/take_file.ts";
import "./style.css";
import { Failure } from "./ui/controls.tsx";
import { Header } from "./ui/shell.tsx";
import { ThemeContext, useThemeChoice } from "./ui/theme.ts";

const PAGES = [
  { name: "maps", title: "Maps", show: (params: Params) => <MapsPage params={params} /> },
  { name: "lab", title: "Lab", show: (params: Params) => <LabPage params={params} /> },
  { name: "latency", title: "Latency", show: (params: Params) => <LatencyPage params={params} /> },
  { name: "send", title: "Send", show: (params: Params) => <SendPage params={params} /> },
  { name: "help", title: "Help", show: () => <HelpPage /> },
] as const;

function App() {
  const [theme, changeTheme] = useThemeChoice();
  const { page, params } = usePlace();
  const [error, setError] = useState<Error>();
  useDrop(setError);
  const shown = PAGES.find(({ name }) => name === page) ?? PAGES[0];
  useEffect(() => {
    document.title = `${shown.title} – attentiond`;
  }, [shown]);
  return (
    <ThemeContext.Provider value={theme}>
      <Header pages={PAGES} current={shown.name} theme={theme} onTheme={changeTheme} />
      {error && <Failure error={error} />}
      <main>{shown.show(params)}</main>
    </ThemeContext.Provider>
  );
}

render(<App />, document.body);
