/**
 * In a node's network namespace. `tunnel-child.ts ADDRESS PORT`: prints whether that end of the
 * tunnel answers an echo, and whether it accepts a connection, as JSON.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { EchoSocket } from 'nftables-napi';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';

const DEVICE = 'nodewall-egress';
const [host = '', port = ''] = process.argv.slice(2);
const parsed = parseAddress(host);
if (parsed === null) throw new Error(`${host} is no address`);

const echoes = new EchoSocket(6, { device: DEVICE });
echoes.request({ address: packAddress(parsed), identifier: 1, sequence: 1, data: new Uint8Array(8) });
const socket = connect({ host: `${host}%${DEVICE}`, port: Number(port) });
let tcp = false;
socket
  .on('error', () => {})
  .on('connect', () => {
    tcp = true;
  });
await sleep(300);
process.stdout.write(JSON.stringify({ echo: echoes.replies().length > 0, tcp }));
socket.destroy();
echoes.close();
