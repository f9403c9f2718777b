// The real thing for the tests: the tally command, Google's emulator, the functions, and Chromium.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const root = new URL('../../..', import.meta.url).pathname;
const patience = 120_000; // the machine may be slow

/** Builds the tally command, and returns its path and a function that removes it. */
export function build() {
  const folder = mkdtempSync(join(tmpdir(), 'tally-dashboard-'));
  const binary = join(folder, 'tally');
  execFileSync('go', ['build', '-o', binary, './cmd/tally'], { cwd: root, stdio: 'inherit' });
  return { binary, remove: () => rmSync(folder, { recursive: true }) };
}

/** A port that is free now, below those that the system gives to outgoing connections. */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const free = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!free) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Starts the command, and returns when it printed what pattern matches. */
async function start(binary, args, environment, pattern) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TALLY_') && name !== 'FIRESTORE_EMULATOR_HOST'));
  const child = spawn(binary, args, { cwd: root, env: { ...env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (data) => (errors += data));
  const timer = setTimeout(() => child.kill(), patience);
  let match;
  for await (const line of createInterface({ input: child.stdout })) if ((match = pattern.exec(line))) break;
  clearTimeout(timer);
  if (!match) throw new Error(`tally ${args.join(' ')} did not start:\n${errors}`);
  child.stdout.resume();
  return {
    found: match[1],
    errors: () => errors,
    async stop() {
      child.kill();
      await ended;
    },
  };
}

/** Starts tally dev on free ports. */
export async function dev(binary) {
  const port = await freePort();
  const command = await start(binary, ['dev', '--firestore-port', port, '--functions-port', await freePort(), '--instances', '1', '--dashboard-port', '0'], {}, /dashboard +(http\S+)/);
  return { ...command, url: command.found, host: `127.0.0.1:${port}`, project: 'demo-tally' };
}

/** Starts tally dashboard on an emulator. */
export async function dashboard(binary, host, project, port = 0) {
  const command = await start(binary, ['dashboard', '--json', '--project', project, '--port', port], { FIRESTORE_EMULATOR_HOST: host }, /"url":"([^"]+)"/);
  return { ...command, url: command.found, host, project };
}

/** Commits writes to the emulator, past its rules. */
export async function commit(host, project, writes) {
  const database = `projects/${project}/databases/(default)`;
  const response = await fetch(`http://${host}/v1/${database}/documents:commit`, {
    method: 'POST',
    headers: { Authorization: 'Bearer owner', 'Content-Type': 'application/json' },
    body: JSON.stringify({ writes: writes(`${database}/documents`) }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
}

/** Adds to shards of a counter, as apps do. */
export const increment = (host, project, counter, shard, by = 1) =>
  commit(host, project, (documents) => [
    { transform: { document: `${documents}/counters/${counter}/shards/${shard}`, fieldTransforms: [{ fieldPath: 'count', increment: { integerValue: by } }] } },
  ]);

/** Writes roll-ups [id, total, as of, documents counted], as the functions do, for tests of more than they would roll up in time. */
export const rollUp = (host, project, rollUps) =>
  commit(host, project, (documents) =>
    rollUps.map(([id, total, asOf, shards]) => {
      const totals = { arrayValue: { values: [{ stringValue: 'count' }] } };
      const tally = { mapValue: { fields: { as_of: { timestampValue: asOf.toISOString() }, num_shards: { integerValue: shards }, totals } } };
      return { update: { name: `${documents}/rollups/${id}`, fields: { count: { integerValue: total }, tally } } };
    }),
  );

/** Launches Chromium. */
export function browser() {
  const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
  if (!executablePath) throw new Error('no Chromium found: install it, or name its executable in CHROMIUM');
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}
