// Creates the page's counters in an emulator, and serves the page, with the client from ../../src and
// the emulator's address in config.json.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

// Of likes anybody adds any number. Of the vote each user has one.
const counters = {
  likes: { path: 'counters/example-likes', fields: { num_shards: { integerValue: 10 } } },
  vote: { path: 'counters/example-vote', fields: { once_per_user: { booleanValue: true } } },
};

const types = { html: 'text/html', css: 'text/css', js: 'text/javascript' };

/** Creates the counters, and serves the page at a port of this machine. Returns the server. */
export async function serveExample(firestore, port) {
  for (const counter of Object.values(counters)) await create(firestore, counter);
  const paths = { likes: counters.likes.path, vote: counters.vote.path };
  const config = JSON.stringify({ databaseId: '(default)', ...firestore, ...paths });

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const known = /^\/(config\.json|(page|src\/\w+)\.(css|js)|)$/.test(pathname);
    const body = known && (await content(pathname, config).catch(() => null));
    if (!body) return response.writeHead(404).end();

    const type = types[pathname.split('.')[1] ?? 'html'] ?? 'application/json';
    response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(body);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  return server;
}

/** What is served at a path. */
async function content(path, config) {
  if (path === '/config.json') return config;
  const folder = path.startsWith('/src/') ? '../..' : '.';
  return readFile(new URL(`${folder}${path === '/' ? '/index.html' : path}`, import.meta.url));
}

/** Creates a counter, past the security rules. One that exists is left as it is. */
async function create({ projectId, host, port }, { path, fields }) {
  const documents = `http://${host}:${port}/v1/projects/${projectId}/databases/(default)/documents`;
  const answer = await fetch(`${documents}/${path}?currentDocument.exists=false`, {
    method: 'PATCH',
    headers: { Authorization: 'Bearer owner', 'Content-Type': 'application/json' },
    body: JSON.stringify({ fields }),
  });
  if (!answer.ok && answer.status !== 409) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}
