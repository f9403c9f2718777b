// A page in Chromium, with the SDK that Google's CDN has: the npm package has the same files.
import { createServer } from 'node:http';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SDK_VERSION } from 'firebase/app';
import { chromium } from 'playwright-core';
import { options } from '../../clients/web/e2e/chromium.mjs';
import { listening } from '../../clients/web/e2e/loopback.mjs';

/** Where the CDN has the SDK. */
export const cdn = `https://www.gstatic.com/firebasejs/${SDK_VERSION}`;

/** Opens a page with this HTML. The end of the test closes it. */
export async function openPage(t, html) {
  const { port, close } = await listening(
    createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(html)),
  );
  t.after(close);
  const browser = await chromium.launch(options());
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.route(`${cdn}/*`, (route) => {
    const file = new URL(`node_modules/firebase/${basename(route.request().url())}`, import.meta.url);
    return route.fulfill({ path: fileURLToPath(file) });
  });
  await page.goto(`http://127.0.0.1:${port}/`);
  return page;
}
