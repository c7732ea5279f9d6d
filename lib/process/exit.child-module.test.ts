import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';

const CHILD = `
  import { createServer } from 'node:net';
  import { exitWithParent } from ${JSON.stringify(`${import.meta.dirname}/exit.ts`)};
  exitWithParent(process);
  const server = createServer({ pauseOnConnect: true }, (socket) => process.send({}, socket));
  server.listen(0, '127.0.0.1', () => process.stdout.write(server.address().port + '\\n'));
`;
const PARENT = `
  const { spawn } = require('node:child_process');
  spawn(process.execPath, ['--input-type=module', '-e', ${JSON.stringify(CHILD)}], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
`;

describe('a process with a channel', () => {
  it('ends with its parent, also while a socket that was sent is not taken yet', async function () {
    this.timeout(60_000);
    const parent = spawn(process.execPath, ['-e', PARENT], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(parent.stdout, 'data');
    parent.kill('SIGSTOP');
    const clients = [connect(Number(line), '127.0.0.1'), connect(Number(line), '127.0.0.1')];
    await Promise.all(clients.map((client) => once(client, 'connect')));
    for (const client of clients) client.on('error', () => {});
    // The child has the stream as well: it closes when both have ended.
    const closed = once(parent.stdout, 'close');
    parent.kill('SIGKILL');
    parent.stdout.resume();
    await closed;
    for (const client of clients) client.destroy();
  });
});
