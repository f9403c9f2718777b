// The Chromium that tests run, for playwright's launch(). It imports no package: tests of other folders
// use it, too.
import { existsSync } from 'node:fs';

// The first is Chromium without the windows around its pages: opening a page takes a quarter of the work.
const usual = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].map(
  (name) => `/usr/bin/${name}`,
);

/** The browser that CHROMIUM names, or one of the system's. It is told to load only what pages ask for. */
export function options() {
  const executablePath = process.env.CHROMIUM ?? usual.find((path) => existsSync(path));
  if (!executablePath) throw new Error('no Chromium found: install it, or name its executable in CHROMIUM');

  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return { executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', ...quiet] };
}
