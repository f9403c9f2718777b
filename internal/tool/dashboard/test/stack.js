// The real thing for the tests: the tally command, Google's emulator, the functions, and Chromium.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import { options } from '../../../../clients/web/e2e/chromium.mjs';

const root = new URL('../../../..', import.meta.url).pathname;
const patience = 180_000; // the machine may be slow

/** Builds the tally command, and returns its path and a function that removes it. */
export function build() {
  const folder = mkdtempSync(join(tmpdir(), 'tally-dashboard-'));
  const binary = join(folder, 'tally');
  execFileSync('go', ['build', '-o', binary, './cmd/tally'], { cwd: root, stdio: 'inherit' });
  return { binary, remove: () => rmSync(folder, { recursive: true }) };
}

/**
 * Holds a port until release(): the system gives it to no other program, and the dashboard can be started there again and again. It is
 * that of an open connection, which a server may share.
 */
export async function holdPort() {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = connect({ port: server.address().port, host: '127.0.0.1', localAddress: '127.0.0.1' });
  await once(connection, 'connect');
  return {
    port: connection.localPort,
    release() {
      connection.destroy();
      server.close();
    },
  };
}

/** Starts the command, and returns the match when it printed what pattern matches. */
async function start(binary, args, environment, pattern) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TALLY_') && name !== 'FIRESTORE_EMULATOR_HOST'));
  const child = spawn(binary, args, { cwd: root, env: { ...env, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (data) => (errors += data));
  const timer = setTimeout(() => child.kill(), patience);
  let match, output = '';
  for await (const line of createInterface({ input: child.stdout })) if ((match = pattern.exec((output += line + '\n')))) break;
  clearTimeout(timer);
  if (!match) throw new Error(`tally ${args.join(' ')} did not start:\n${errors}`);
  child.stdout.resume();
  return {
    match,
    errors: () => errors,
    async stop() {
      child.kill();
      await ended;
    },
  };
}

/** Starts tally dev on ports that are free. */
export async function dev(binary) {
  const command = await start(binary, ['dev', '--firestore-port=0', '--functions-port=0', '--instances=1', '--dashboard-port=0'], {}, /Firestore +(\S+),[^]*dashboard +(http\S+)/);
  return { ...command, host: command.match[1], url: command.match[2], project: 'demo-tally' };
}

/** Starts tally dashboard on an emulator. */
export async function dashboard(binary, host, project, port = 0, flags = []) {
  const command = await start(binary, ['dashboard', '--json', '--project', project, '--port', port, ...flags], { FIRESTORE_EMULATOR_HOST: host }, /"url":"([^"]+)"/);
  return { ...command, url: command.match[1], host, project };
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
  return chromium.launch(options());
}
