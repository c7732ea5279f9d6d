import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Patience } from '../../lib/process/connection-attempt.ts';

import { type AgentAttempt, agentAttempt, configuredProbes, flowsOf, probeRound } from './probes.ts';

const LOCAL = '127.0.0.1';
const PATIENCE = { milliseconds: 2_000, connectWithin: 1_000 };

async function errorOf(one: AgentAttempt, patience: Patience = PATIENCE): Promise<string | null> {
  return (await agentAttempt(one, patience)).error;
}

describe('probes', () => {
  let server: Server;
  let port: number;
  before(async () => {
    server = createServer((socket) => {
      // Neither HTTP nor TLS: an answer that refuses.
      socket
        .on('error', () => {})
        .once('data', (data) => {
          socket.end(data.toString().startsWith('GET') ? 'HTTP/1.1 503 Sorry\r\n\r\n' : 'what?\n');
        });
    }).listen(0, LOCAL);
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  after(() => server.close());

  it('pass by any answer', async () => {
    const udp = createSocket('udp4').bind(0, LOCAL);
    await once(udp, 'listening');
    udp.on('message', (data, { port: to, address }) => udp.send(data, to, address));
    const ofUdp = { address: LOCAL, port: udp.address().port };
    const all = await Promise.all([
      errorOf({ kind: 'tcp', address: LOCAL, port }),
      errorOf({ kind: 'tls', address: LOCAL, port }),
      errorOf({ kind: 'http', url: `http://${LOCAL}:${port}/`, address: LOCAL, port }),
      errorOf({ kind: 'udp', ...ofUdp }),
      errorOf({ kind: 'dns', ...ofUdp }),
    ]);
    udp.close();
    assert.deepEqual(all, [null, null, null, null, null]);
  });

  it('fail without an answer, and where nobody listens', async () => {
    const quiet = createSocket('udp4').bind(0, LOCAL);
    await once(quiet, 'listening');
    const silent = { kind: 'dns', address: LOCAL, port: quiet.address().port } as const;
    assert.equal(await errorOf(silent, { milliseconds: 50 }), 'no answer in 0.05 s');
    quiet.close();
    const closed = { kind: 'tcp', address: LOCAL, port: 1 } as const;
    assert.match((await errorOf(closed)) ?? '', /ECONNREFUSED/);
    const either = {
      kind: 'outward',
      name: 'two',
      attempts: [closed, { kind: 'tcp', address: LOCAL, port } as const],
    } as const;
    assert.deepEqual([...(await probeRound([either], PATIENCE))], [['two', null]]);
  });

  it('ask DNS servers of other hosts only, and those of the configuration', () => {
    const guard = {
      ...DEFAULT_CONFIG.guard,
      probes: [{ name: 'db', target: { kind: 'tcp', address: '192.0.2.7', port: 5432 } as const }],
    };
    const names = { ...DEFAULT_CONFIG.names, servers: ['127.0.0.53', '192.0.2.53', '[2001:db8::53]:5353'] };
    const [dns, db] = configuredProbes({ ...DEFAULT_CONFIG, names, guard });
    assert.ok(dns !== undefined && db !== undefined);
    assert.deepEqual(flowsOf(dns), [
      { direction: 'egress', dst: '192.0.2.53', protocol: 'udp', dstPort: 53 },
      { direction: 'egress', dst: '2001:db8::53', protocol: 'udp', dstPort: 5353 },
    ]);
    assert.deepEqual(flowsOf(db)[0], {
      direction: 'egress',
      dst: '192.0.2.7',
      protocol: 'tcp',
      dstPort: 5432,
    });
  });
});
