// What .ci/release made for this machine, which RELEASE names the folder of, as its users meet it: a
// registry serves the packages, and the commands run in an empty folder, with Node.js and Java on PATH
// and nothing else: neither Go nor a clone.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';

const release = resolve(process.env.RELEASE ?? assert.fail('RELEASE is not set'));
const version = basename(release);
const machine = `${process.platform}-${process.arch}`;

/** A test of what should end fails after that many milliseconds. */
const timeout = 300_000;

const work = mkdtempSync(join(tmpdir(), 'tally-release-'));
const home = join(work, 'home');
const app = join(work, 'app');
const bin = join(work, 'bin');
const env = { HOME: home, PATH: bin, JAVA_TOOL_OPTIONS: process.env.JAVA_TOOL_OPTIONS ?? '' };

/** What npm's registry says of a package: https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md */
const packages = new Map();
for (const file of readdirSync(release).filter((name) => name.endsWith('.tgz'))) {
  const manifest = JSON.parse(execFileSync('tar', ['xzOf', join(release, file), 'package/package.json']));
  packages.set(manifest.name, { file, manifest });
}

const registry = createServer((request, response) => {
  const name = decodeURIComponent(request.url.slice(1));
  const file = join(release, basename(name));
  if (name.endsWith('.tgz') && existsSync(file)) {
    response.end(readFileSync(file));
    return;
  }

  const found = packages.get(name);
  response.statusCode = found ? 200 : 404;
  if (!found) {
    response.end('{}');
    return;
  }
  const { version, ...rest } = found.manifest;
  const dist = { tarball: `${env.npm_config_registry}/${found.file}` };
  const packument = { name, 'dist-tags': { latest: version }, versions: { [version]: { ...rest, version, dist } } };
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(packument));
});

/** Runs a command in the app's folder; `all` is what it printed. */
async function run(command, args, options = {}) {
  const child = spawn(join(bin, command), args, { cwd: app, env, stdio: ['ignore', 'pipe', 'pipe'], ...options });
  let out = '';
  let all = '';
  child.stdout.on('data', (data) => ((out += data), (all += data)));
  child.stderr.on('data', (data) => (all += data));
  const [status, signal] = await once(child, 'close');
  return { status: status ?? signal, out, all };
}

/** Runs tally, which must end with status 0, and returns what it prints to standard output. */
async function tally(...args) {
  const { status, out, all } = await run('npx', ['tally', ...args]);
  assert.equal(status, 0, all);
  return out;
}

/** Starts tally dev in a process group of its own, and waits until it has greeted. The test's end ends it. */
async function startDev(t, command, args) {
  const ports = ['firestore', 'functions', 'dashboard'].map((server) => `--${server}-port=0`);
  const child = spawn(command, [...args, 'dev', ...ports], {
    cwd: app,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let all = '';
  const ended = once(child, 'close');
  t.after(() => {
    try {
      process.kill(-child.pid, 'SIGTERM');
    } catch {
      // It has ended.
    }
  });
  await new Promise((greeted, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        all += data;
        if (all.includes('Point an app at it')) greeted();
      });
    }
    void ended.then(() => failed(new Error(all)));
  });
  const [, host, port] = /Firestore +(\S+):(\d+),/.exec(all);
  return { child, ended, emulator: { host, port: Number(port) }, all: () => all };
}

/** Whether something takes connections there. */
async function serves(at) {
  const socket = connect(at);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** The file of a command of this machine. */
const which = (name) => realpathSync(execFileSync('which', [name], { encoding: 'utf8' }).trim());

/** Where the demo keeps the emulator that it downloads, below the home directory. */
const cache = '.cache/firebase/emulators';

/** An emulator that a demo of this machine has downloaded, if one has. */
function downloaded() {
  const folder = join(homedir(), cache);
  const jar = existsSync(folder) && readdirSync(folder).find((name) => name.endsWith('.jar'));
  return jar ? join(folder, jar) : undefined;
}

before(async () => {
  for (const folder of [home, app, bin]) mkdirSync(folder);
  for (const name of ['node', 'npm', 'npx', 'java', 'sh', 'env']) {
    symlinkSync(which(name), join(bin, name));
  }

  // Google's emulator is there as if an earlier demo had downloaded it, if this machine has it.
  const jar =
    downloaded() ?? join(dirname(which('gcloud')), '../platform/cloud-firestore-emulator/cloud-firestore-emulator.jar');
  if (existsSync(jar)) {
    mkdirSync(join(home, cache), { recursive: true });
    symlinkSync(jar, join(home, cache, 'cloud-firestore-emulator-v1.0.0.jar'));
  }

  await once(registry.listen(0, '127.0.0.1'), 'listening');
  env.npm_config_registry = `http://127.0.0.1:${registry.address().port}`;
});

after(() => {
  registry.close();
  rmSync(work, { recursive: true, force: true });
});

test('npm installs the program of this machine, and runs nothing', async (t) => {
  const began = Date.now();
  const { status, all } = await run('npm', ['install', '@firestore-tally/cli']);
  assert.equal(status, 0, all);
  const installed = readdirSync(join(app, 'node_modules/@firestore-tally')).sort();
  assert.deepEqual(installed, ['cli', `cli-${machine}`]);
  for (const { manifest } of packages.values()) {
    if (!manifest.name.endsWith('/web')) assert.equal(manifest.scripts, undefined);
  }

  const { file } = packages.get(`@firestore-tally/cli-${machine}`);
  const size = (name) => `${(statSync(name).size / 1e6).toFixed(1)} MB`;
  const program = join(app, 'node_modules/@firestore-tally', `cli-${machine}`, 'tally');
  t.diagnostic(
    `installed in ${(Date.now() - began) / 1000} s: ${size(join(release, file))}, unpacked ${size(program)}`,
  );
});

test('the program is the one that go install makes of the version', async () => {
  assert.match(await tally('version'), new RegExp(`^tally ${version.replaceAll('.', '\\.')} go1`));
  const program = join(app, 'node_modules/@firestore-tally', `cli-${machine}`, 'tally');
  const built = execFileSync('go', ['version', '-m', program], { encoding: 'utf8' });
  assert.ok(built.includes(`\tmod\tgithub.com/firestore-tally/tally\t${version}\t`), built);
  assert.ok(!built.includes(process.cwd()), built);
});

test('demo is exact', { timeout }, async (t) => {
  const began = Date.now();
  const report = JSON.parse(
    await tally('demo', '--increments=300', '--firestore-port=0', '--functions-port=0', '--json'),
  );
  assert.equal(report.acknowledged, 300);
  assert.equal(report.exact, true);
  t.diagnostic(`300 increments, from nothing to the report in ${(Date.now() - began) / 1000} s`);
});

test('init, dev and Ctrl-C', { timeout }, async (t) => {
  await tally('init');
  const dev = await startDev(t, join(bin, 'npx'), ['tally']);
  assert.ok(await serves(dev.emulator));

  process.kill(-dev.child.pid, 'SIGINT'); // a terminal sends it to all of them
  await dev.ended;
  assert.equal(await serves(dev.emulator), false, dev.all());
});

for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM']) {
  test(`${signal} to the launcher alone ends everything`, { timeout }, async (t) => {
    const dev = await startDev(t, join(app, 'node_modules/.bin/tally'), []);
    dev.child.kill(signal);
    const [status] = await dev.ended;
    assert.equal(status, 0, dev.all());
    assert.equal(await serves(dev.emulator), false, dev.all());
  });
}

test('SIGKILL of the launcher leaves nothing running', { timeout }, async (t) => {
  const dev = await startDev(t, join(app, 'node_modules/.bin/tally'), []);
  const functions = [...dev.all().matchAll(/functions +process \d+: http:\/\/([\d.]+):(\d+)/g)];
  assert.ok(functions.length > 0, dev.all());
  const servers = [dev.emulator, ...functions.map(([, host, port]) => ({ host, port: Number(port) }))];
  for (const at of servers) assert.ok(await serves(at), JSON.stringify(at));

  dev.child.kill('SIGKILL');
  await dev.ended; // all that have its standard output have ended
  for (const at of servers) assert.equal(await serves(at), false, JSON.stringify(at));
});

test('the commands that it prints begin with its name', { timeout }, async (t) => {
  const dev = await startDev(t, join(app, 'node_modules/.bin/tally'), []);
  assert.match(dev.all(), /^ {2}tally create counters\/my-counter &&\n {2}tally increment counters\/my-counter$/m);
});

test('the status of the program comes back', async () => {
  const wrong = await run('npx', ['tally', 'nonsense']);
  assert.equal(wrong.status, 1, wrong.all);
});

test('deploy uploads what the program carries, which is what this clone has', async () => {
  const plan = ['deploy', '--dry-run', '--new', '--location=nam5', '--project=my-project'];
  const carried = await tally(...plan);
  assert.ok(carried.includes(`this tally's own, version ${version}, `), carried);
  const [, hash] = /^ {2}source .* hash ([0-9a-f]{16})$/m.exec(carried);
  const ofClone = execFileSync('go', ['run', './cmd/tally', ...plan], { encoding: 'utf8' });
  assert.ok(ofClone.includes(`hash ${hash}`), ofClone);
});

test('without the package for the machine, tally says which', async () => {
  rmSync(join(app, 'node_modules'), { recursive: true });
  rmSync(join(app, 'package-lock.json'));
  const { status, all } = await run('npm', ['install', '--omit=optional', '@firestore-tally/cli']);
  assert.equal(status, 0, all);
  const lacking = await run('npx', ['tally', 'version']);
  assert.equal(lacking.status, 1);
  assert.match(lacking.all, new RegExp(`@firestore-tally/cli-${machine} is not installed`));
});
