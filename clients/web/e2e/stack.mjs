// Everything that Tally needs, for tests: `tally dev` on ports that are free, with firestore.rules
// enforced.
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const root = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * Starts `tally dev`, the program that TALLY names, and waits until it greets.
 *
 * - `flags`: further flags, such as `--rules`.
 * - `env`: further variables, such as `{ TALLY_CADENCE: '5s' }`.
 * - `project`, `instances`: as the flags of dev.
 * - `cwd`: the folder of the app.
 */
export async function startStack({ project = 'demo-tally', instances = 1, flags = [], env = {}, cwd = root } = {}) {
  const { FIRESTORE_EMULATOR_HOST: _, TALLY: tally, ...inherited } = process.env;
  if (!tally) throw new Error('TALLY is not set: run the tests with npm');
  const ports = ['firestore', 'functions', 'dashboard'].map((server) => `--${server}-port=0`); // any that are free
  const args = ['dev', '--project', project, '--instances', instances, ...ports, ...flags].map(String);
  const child = spawn(tally, args, { cwd, env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal)));
  const greeted = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        output += data;
        if (/^Point an app at it:[^]*\n\n/m.test(output)) resolve();
      });
    }
    child.once('error', reject);
    void ended.then((how) => reject(new Error(`tally dev ended: ${how}\n${output}`)));
  });

  const stack = {
    host: '127.0.0.1',
    port: 0, // until it has greeted
    project,
    /** What it has printed. */
    output: () => output,
    /** The ids of the functions processes. */
    functions: () => pids(output),
    /** Stops the functions, so that no roll-up is written, until they are resumed. */
    pause: () => pids(output).forEach((pid) => process.kill(pid, 'SIGSTOP')),
    resume: () => pids(output).forEach((pid) => process.kill(pid, 'SIGCONT')),
    /** Ends all of it, and waits until it has. */
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      for (const pid of pids(output)) tryKill(pid, 'SIGCONT'); // a stopped process cannot end
      child.kill('SIGINT');
      try {
        await within(patience, ended, () => `tally dev does not end:\n${output}`);
      } catch (error) {
        child.kill('SIGKILL');
        throw error;
      }
    },
    /**
     * Makes a REST request past the rules: method, path below documents, body. Returns the answer;
     * null: not found.
     */
    async rest(method, path, body) {
      const url = `http://${stack.host}:${stack.port}/v1/projects/${project}/databases/(default)/documents${path}`;
      const headers = { Authorization: 'Bearer owner', 'Content-Type': 'application/json' };
      const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
      if (answer.status === 404) return null;
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    },
    /** Sets a document to fields of whole numbers and booleans. */
    set(path, fields) {
      const value = (v) => (typeof v === 'boolean' ? { booleanValue: v } : { integerValue: v });
      const entries = Object.entries(fields).map(([name, v]) => [name, value(v)]);
      return stack.rest('PATCH', `/${path}`, { fields: Object.fromEntries(entries) });
    },
    /** The sum of a field of a counter's documents; null: how many there are. */
    async sum(counter, documents = `${counter}/shards`, field = 'count') {
      const list = (await stack.rest('GET', `/${documents}?pageSize=1000`)).documents ?? [];
      return list.reduce(
        (total, { fields }) => total + (field ? Number(fields[field].integerValue ?? fields[field].doubleValue) : 1),
        0,
      );
    },
  };
  try {
    await within(300_000, greeted, () => `tally dev did not greet:\n${output}`);
    stack.port = Number(output.match(/^ +Firestore +127\.0\.0\.1:(\d+),/m)[1]);
  } catch (error) {
    await stack.stop();
    throw error;
  }
  return stack;
}

/** The ids of the functions processes, as dev prints them in its greeting. */
function pids(output) {
  return [...output.matchAll(/process (\d+): /g)].map(([, pid]) => Number(pid));
}

function tryKill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** The promise's result, or an error with the text once `ms` are over. */
export async function within(ms, promise, text) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(text())), ms)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** How long a test waits: the SDK may try a connection again after a minute, and machines are slow. */
export const patience = 180_000; // ms

/** Waits until check() returns something, and returns that. */
export async function until(check, text) {
  const deadline = performance.now() + patience;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`waited for ${patience / 1000} s: ${await text()}`);
    await sleep(50);
  }
}
