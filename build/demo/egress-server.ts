/**
 * Runs in the server's namespace: answers each line of a connection with the address that it sees.
 */
import { createServer } from 'node:net';

const [port = ''] = process.argv.slice(2);
const server = createServer((socket) => {
  socket.on('error', () => undefined); // the caller has gone
  socket.on('data', () => socket.write(`${socket.remoteAddress} ${socket.remotePort}\n`));
});
server.listen({ port: Number(port), host: '0.0.0.0' }, () => process.stdout.write('listening\n'));
