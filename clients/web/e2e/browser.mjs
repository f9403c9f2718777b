// A browser with pages that run the real SDK against a stack, and a line to Firestore that can be
// cut or held up.
import { build } from 'esbuild';
import { createServer, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { options } from './chromium.mjs';
import { listening } from './loopback.mjs';

/** Starts Chromium. */
export function launch() {
  return chromium.launch(options());
}

/** Serves the test page, with the firebase package of that name in it, at every path. */
export async function servePage(firebase) {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL('page.mjs', import.meta.url))],
    bundle: true,
    minify: true,
    format: 'esm',
    alias: { firebase },
    write: false,
    metafile: true,
    absWorkingDir: fileURLToPath(new URL('..', import.meta.url)), // of clients/web
  });

  // internal/test/changed takes it for granted: a change elsewhere changes no page.
  const elsewhere = Object.keys(metafile.inputs).filter((path) => path.startsWith('..'));
  if (elsewhere.length > 0) throw new Error(`the page is built of ${elsewhere}: list them in internal/test/changed`);

  const html = `<!doctype html><meta charset="utf-8"><title>test</title><link rel="icon" href="data:,"><body><script type="module">${outputFiles[0].text.replaceAll('</script', '<\\/script')}</script>`;
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(html));
  return listening(server);
}

/**
 * A proxy between pages and Firestore.
 *
 * - `cut()`: breaks all connections and refuses new ones, until `restore()`.
 * - `hold()`: keeps back what Firestore answers to writes, until `restore()`; what it tells listeners
 *   passes.
 * - `lose()`: loses what is kept back.
 * - `sent()`: all that pages have sent.
 */
export async function startLine(port) {
  let cut = false;
  let held = null;
  let sent = '';
  const server = createServer((incoming, response) => {
    const { method, url, headers } = incoming;
    const unescaped = (text) =>
      `${text}\n`.replace(/%([0-9A-F]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
    sent += unescaped(`${method} ${url} ${JSON.stringify(headers)}`);
    incoming.on('data', (data) => (sent += unescaped(data)));
    const outgoing = request({ host: '127.0.0.1', port, method, path: url, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      // What is asked for with POST only says that a write has come.
      const ofWrites = method === 'GET' && url.includes('/Write/channel');
      const pass = (call) => (held && ofWrites ? held.push(call) : call());
      answer.on('data', (data) => pass(() => response.write(data)));
      answer.on('end', () => pass(() => response.end()));
      answer.on('error', () => response.destroy());
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  server.keepAliveTimeout = 0; // or it might end a connection just when the browser asks something on it
  server.on('connection', (socket) => cut && socket.destroy());
  const line = await listening(server);
  return {
    ...line,
    sent: () => sent,
    cut() {
      cut = true;
      server.closeAllConnections();
    },
    hold: () => (held ??= []),
    lose: () => (held = null),
    restore() {
      cut = false;
      const calls = held ?? [];
      held = null;
      for (const call of calls) call();
    },
  };
}
