/**
 * `node test/console/serve.ts [PORT]`: the console with sample documents, to look at. Loopback
 * only.
 */
import { connect, createServer } from 'node:net';
import { CONSOLE_PATH } from '../../apis/console.ts';
import { FakeConsole, sampleDocuments } from './fake-console.ts';

const port = Number(process.argv[2] ?? 8001);
const fake = await FakeConsole.start(sampleDocuments());
createServer((here) => {
  const there = connect(fake.socket);
  here.pipe(there).on('error', () => here.destroy());
  there.pipe(here).on('error', () => there.destroy());
}).listen(port, '127.0.0.1');
process.stdout.write(`http://127.0.0.1:${port}${CONSOLE_PATH}/index.html\n`);
