/**
 * What an application does: `node application.ts PORT NAME_OR_ADDRESS [SERVER]` asks the DNS server
 * for the name and connects to the first address it is told, once. Prints `{"address",
 * "milliseconds"}` of the connection, or `{"error"}`.
 */
import { Resolver } from 'node:dns/promises';
import { connect, isIP } from 'node:net';

/** Beyond TCP's first retry, which comes after a second. */
const PATIENCE = 2_200;
const [port = '80', name = '', server = ''] = process.argv.slice(2);

async function addressOf(): Promise<string> {
  if (isIP(name) !== 0) return name;
  const resolver = new Resolver({ timeout: 1_000, tries: 2 });
  resolver.setServers([server]);
  const [address = ''] = await resolver.resolve4(name);
  return address;
}

function milliseconds(address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    const socket = connect(Number(port), address);
    socket.setTimeout(PATIENCE, () => socket.destroy(new Error('silence')));
    socket.on('error', reject).on('connect', () => {
      resolve(performance.now() - start);
      socket.destroy();
    });
  });
}

try {
  const address = await addressOf();
  process.stdout.write(JSON.stringify({ address, milliseconds: await milliseconds(address) }));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: (error as Error).message }));
}
