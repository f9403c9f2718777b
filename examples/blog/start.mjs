// `npm start`: runs Tally on this machine, and serves the blog. Arguments after -- are for tally dev.
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import process from 'node:process';
import { createInterface } from 'node:readline';

const files = {
  '/': ['index.html', 'text/html'],
  '/blog.js': ['blog.js', 'text/javascript'],
  '/blog.css': ['blog.css', 'text/css'],
};

/** Where a path's file is, and its type. An app has the web client from npm. */
function fileAt(path) {
  const [, module] = /^\/tally\/(\w+\.js)$/.exec(path) ?? [];
  return module ? [`../../clients/web/src/${module}`, 'text/javascript'] : files[path];
}

const site = createServer(async (request, response) => {
  const [file, type] = fileAt(new URL(request.url, 'http://localhost').pathname) ?? [];
  if (!file) return response.writeHead(404).end();

  const content = await readFile(new URL(file, import.meta.url));
  response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(content);
});
site.on('error', (error) => console.error(`could not serve the blog: ${error.message}; PORT names another port`));
site.on('listening', () => console.log(`The blog is at http://127.0.0.1:${site.address().port}\n`));

const args = ['dev', '--project', 'demo-blog', ...process.argv.slice(2)];
const tally = spawn('tally', args, { stdio: ['inherit', 'pipe', 'inherit'] });
createInterface(tally.stdout).on('line', (line) => {
  console.log(line);
  if (line.startsWith('Tally runs.')) site.listen(process.env.PORT ?? 8000, '127.0.0.1');
});

process.on('SIGINT', () => {}); // tally gets it, too, and ends in order
tally.on('error', (error) => console.error(`could not run tally: ${error.message}; start the blog by npm start`));
tally.on('close', (code) => process.exit(code ?? 1));
