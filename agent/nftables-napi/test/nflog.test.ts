import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadBinding, type NativeNflogBatch } from '../lib/binding.ts';
import { Nflog, type NflogBatch, type NflogOptions, type NflogPacket } from '../lib/index.ts';
import { inNamespace, ip, nft } from './netns.ts';

const library = path.join(import.meta.dirname, '../lib/index.ts');
const port = 4567;
const hooks = { prerouting: 0, input: 1, output: 3, postrouting: 4 };

/** Holds up this thread, as a listener that works too long would. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** Sends so many datagrams from a process of its own. */
function flood(count: number, bytes = 100): void {
  const text = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(${count}): s.sendto(b'x' * ${bytes}, ('127.0.0.1', ${port}))`;
  assert.equal(spawnSync('python3', ['-c', text], { encoding: 'utf8' }).status, 0);
}

inNamespace(import.meta.filename, () => {
  describe('Nflog', () => {
    let batches: NflogBatch[];
    let open: Nflog[];
    let sockets: Socket[];
    before(() => {
      ip('link', 'set', 'lo', 'up');
    });
    beforeEach(() => {
      batches = [];
      open = [];
      sockets = [];
      nft('add table inet t');
      for (const hook of Object.keys(hooks))
        nft(`add chain inet t ${hook} { type filter hook ${hook} priority 0; }`);
    });
    afterEach(async () => {
      await Promise.all(open.map((nflog) => nflog.close()));
      for (const socket of sockets) socket.close();
      nft('flush', 'ruleset');
    });

    const listen = (options: Partial<NflogOptions> = {}): Nflog => {
      const nflog = new Nflog({ group: 5, ...options }, (batch) => batches.push(batch));
      open.push(nflog);
      return nflog;
    };
    const log = (hook: keyof typeof hooks, statement: string): void => {
      nft(`add rule inet t ${hook} udp dport ${port} log ${statement}`);
    };
    const send = async (text: string, address = '127.0.0.1'): Promise<number> => {
      const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
      sockets.push(socket);
      await new Promise((resolve) => socket.send(text, port, address, resolve));
      return socket.address().port;
    };
    const packets = (): NflogPacket[] => batches.flatMap((batch) => batch.packets);
    const lost = (): number => batches.reduce((sum, batch) => sum + batch.lost, 0);
    const until = async (holds: () => boolean, wait = 5_000): Promise<void> => {
      for (const end = performance.now() + wait; !holds() && performance.now() < end; ) await sleep(5);
      assert.ok(holds(), `${packets().length} packets, ${lost()} lost`);
    };
    const one = async (): Promise<NflogPacket> => {
      await until(() => packets().length > 0);
      const [packet, ...rest] = packets();
      assert.ok(packet);
      assert.deepEqual(rest, []);
      return packet;
    };

    it('returns all fields of a packet that arrived', async () => {
      listen();
      log('input', 'prefix "nodewall: in " group 5');
      const before = Date.now() * 1000;
      const sourcePort = await send('hello');
      const packet = await one();
      const { payload, timestamp, original, ...rest } = packet;
      assert.deepEqual(rest, {
        group: 5,
        prefix: 'nodewall: in ',
        length: 33,
        family: 2,
        hook: 1,
        inputInterface: 1,
        outputInterface: null,
        sequence: 0,
      });
      const bytes = Buffer.from(payload);
      assert.equal(bytes[0], 0x45);
      assert.deepEqual([...bytes.subarray(12, 20)], [127, 0, 0, 1, 127, 0, 0, 1]);
      assert.deepEqual([bytes.readUInt16BE(20), bytes.readUInt16BE(22)], [sourcePort, port]);
      assert.equal(bytes.subarray(28).toString(), 'hello');
      if (timestamp !== null)
        assert.ok(timestamp >= before - 1e6 && timestamp < before + 60e6, `${timestamp}`);
      // Only with CONFIG_NETFILTER_NETLINK_GLUE_CT.
      if (original) assert.deepEqual([original.sourcePort, original.destinationPort], [sourcePort, port]);
    });

    it('returns the hook and the interfaces', async () => {
      listen();
      for (const hook of Object.keys(hooks)) log(hook as keyof typeof hooks, `prefix "${hook}" group 5`);
      await send('x');
      await until(() => packets().length === 4);
      const told = packets().map((it) => [it.prefix, it.hook, it.inputInterface, it.outputInterface]);
      assert.deepEqual(told, [
        ['output', 3, null, 1],
        ['postrouting', 4, null, 1],
        ['prerouting', 0, 1, null],
        ['input', 1, 1, null],
      ]);
      assert.deepEqual(
        packets().map(({ sequence }) => sequence),
        [0, 1, 2, 3],
      );
    });

    it('distinguishes IPv6 from IPv4', async () => {
      listen();
      log('input', 'group 5');
      await send('six', '::1');
      const { family, payload, prefix } = await one();
      assert.deepEqual([family, (payload[0] ?? 0) >> 4, prefix], [10, 6, '']);
      assert.equal(Buffer.from(payload).subarray(48).toString(), 'six');
    });

    it('cuts the payload at copyRange', async () => {
      for (const copyRange of [1, 2, 3, 29, 131, 65_531]) {
        batches = [];
        const nflog = listen({ copyRange });
        log('input', 'group 5');
        await send('y'.repeat(2000));
        const { payload, length } = await one();
        assert.equal(payload.length, Math.min(copyRange, 2028));
        assert.equal(length, payload.length);
        assert.ok(payload.subarray(28).every((byte) => byte === 121));
        await nflog.close();
        nft('flush', 'chain', 'inet', 't', 'input');
      }
    });

    it('passes many packets in few calls, in order, each with its prefix', async () => {
      listen();
      log('output', 'prefix "out ä" group 5');
      log('input', 'prefix "in" group 5');
      flood(3000);
      await until(() => packets().length === 6000);
      assert.ok(packets().every(({ sequence }, i) => sequence === i));
      assert.ok(packets().every(({ prefix, hook }) => prefix === (hook === 3 ? 'out ä' : 'in')));
      assert.ok(packets().every(({ payload }) => payload.length === 128));
      assert.ok(batches.every((batch) => batch.packets.length <= 1024));
      // The main thread slept while they were sent: the first batch is what was there first.
      assert.ok(batches.length < 6000 / 64 + 10, `${batches.length} batches`);
      assert.equal(lost(), 0);
    });

    it('waits for the queue threshold no longer than the flush interval', async () => {
      listen({ queueThreshold: 256, flushInterval: 3_000 });
      log('input', 'group 5');
      const began = performance.now();
      await send('x');
      await one();
      const took = performance.now() - began;
      assert.ok(took > 2_000, `${took} ms`);
      batches = [];
      flood(256);
      // The threshold, not the interval, has ended the wait.
      await until(() => packets().length === 256, 2_000);
    });

    it('counts lost packets while the listener is busy, without more memory', async () => {
      let got = 0;
      let gone = 0;
      const nflog = new Nflog({ group: 5, receiveBuffer: 256 * 1024 }, (batch) => {
        got += batch.packets.length;
        gone += batch.lost;
        if (got < 2000) block(20);
      });
      open.push(nflog);
      log('input', 'group 5');
      const before = process.memoryUsage().rss;
      for (let i = 0; i < 3; i++) {
        flood(20_000);
        await sleep(1);
      }
      const grown = process.memoryUsage().rss - before;
      for (let i = 0; i < 20; i++) {
        await send('the last ones show the gap');
        await sleep(20);
      }
      await until(() => got + gone >= 60_020);
      assert.equal(got + gone, 60_020);
      assert.ok(gone > 10_000, `${gone} lost`);
      assert.ok(grown < 32 * 2 ** 20, `${grown} bytes more`);
    });

    it('reads connections, bridged packets and errors that this kernel does not send', () => {
      let tell: ((batch: NativeNflogBatch) => void) | undefined;
      class Fake {
        constructor(...args: unknown[]) {
          tell = args.at(-1) as typeof tell;
        }
      }
      const binding = { ...loadBinding(), Nflog: Fake as never };
      new Nflog({ group: 5 }, (batch) => batches.push(batch), binding);
      const record = (words: number[], rest: number[]): number[] => [
        ...new Uint8Array(Uint32Array.from([48 + rest.length, ...words]).buffer),
        ...rest,
      ];
      const bytes = [
        // family | hook << 8, EtherType | flags << 16 ... as in src/core/nflog.h
        ...record(
          [
            4,
            0,
            7 | (1 << 8),
            0x0800 | (15 << 16),
            3,
            4,
            1_700_000_000,
            5,
            2 ** 32 - 1,
            6 | (4 << 8),
            (40_000 << 16) | 443,
          ],
          [10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4],
        ),
        ...record(
          [0, 0, 7, 0x86dd | (4 << 16), 0, 0, 0, 0, 0, 58 | (16 << 8), 0],
          Array.from({ length: 32 }, (_, i) => i),
        ),
        ...record([0, 0, 7, 0x0806, 0, 0, 0, 0, 0, 0, 0], []),
      ];
      tell?.({ records: Uint8Array.from(bytes), prefixes: ['p'], lost: 3, errno: 12 });
      const [{ packets: told = [], lost: gone, error } = {}] = batches;
      assert.deepEqual(
        [told.length, gone, error?.code, error?.message],
        [3, 3, 'ENOMEM', 'nflog group 5: Cannot allocate memory'],
      );
      assert.deepEqual(told[0], {
        group: 5,
        prefix: 'p',
        payload: Uint8Array.of(1, 2, 3, 4),
        length: 4,
        family: 2,
        hook: 1,
        inputInterface: 3,
        outputInterface: 4,
        timestamp: 1_700_000_000_000_005,
        sequence: 2 ** 32 - 1,
        original: {
          source: Uint8Array.of(10, 0, 0, 1),
          destination: Uint8Array.of(10, 0, 0, 2),
          protocol: 6,
          sourcePort: 40_000,
          destinationPort: 443,
        },
      });
      assert.deepEqual([told[1]?.family, told[1]?.timestamp, told[1]?.sequence], [10, null, null]);
      assert.deepEqual([told[1]?.original?.protocol, told[1]?.original?.sourcePort], [58, null]);
      assert.deepEqual([told[1]?.original?.source[15], told[1]?.original?.destination[15]], [15, 31]);
      assert.deepEqual([told[2]?.family, told[2]?.original], [7, null]);
    });

    it('reports EBUSY for a group in use, with its number, and gets it when it is closed', async () => {
      const first = listen({ group: 77 });
      assert.throws(() => listen({ group: 77 }), {
        name: 'NftError',
        code: 'EBUSY',
        message: 'nflog group 77: somebody else listens to it: Device or resource busy',
      });
      await first.close();
      assert.doesNotMatch(readFileSync('/proc/self/net/netfilter/nfnetlink_log', 'utf8'), /^\s*77 /m);
      listen({ group: 77 });
      assert.match(readFileSync('/proc/self/net/netfilter/nfnetlink_log', 'utf8'), /^\s*77 /m);
    });

    it('reports EPERM without CAP_NET_ADMIN', () => {
      const text = `import { Nflog } from '${library}';
        try { new Nflog({ group: 5 }, () => {}); } catch (error) { process.stdout.write(error.code + ' ' + error.message); }`;
      const args = ['--bounding-set', '-all', '--inh-caps', '-all', '--reuid', '65534', '--clear-groups'];
      const node = [process.execPath, '--input-type=module', '-e', text];
      const { stdout, stderr } = spawnSync('setpriv', [...args, ...node], { encoding: 'utf8' });
      assert.equal(stdout, 'EPERM nflog group 5: Operation not permitted', stderr);
    });

    it('keeps two groups apart', async () => {
      listen();
      listen({ group: 6 });
      log('input', 'group 6');
      log('output', 'group 5');
      await send('x');
      await until(() => packets().length === 2);
      assert.deepEqual(
        packets()
          .map((it) => [it.group, it.hook, it.sequence])
          .sort(),
        [
          [5, 3, 0],
          [6, 1, 0],
        ],
      );
    });

    it('reports nothing after close, and can be closed twice', async () => {
      const nflog = listen();
      log('input', 'group 5');
      await Promise.all([nflog.close(), nflog.close()]);
      await send('x');
      await sleep(50);
      assert.deepEqual(batches, []);
      nflog.ref().unref();
    });

    it('rejects wrong options at once', () => {
      const wrong: [object, typeof TypeError][] = [
        [{}, TypeError],
        [{ group: '5' }, TypeError],
        [{ group: -1 }, RangeError],
        [{ group: 65_536 }, RangeError],
        [{ group: 5, copyRange: 0 }, RangeError],
        [{ group: 5, copyRange: 65_532 }, RangeError],
        [{ group: 5, queueThreshold: 1025 }, RangeError],
        [{ group: 5, flushInterval: 0 }, RangeError],
        [{ group: 5, receiveBuffer: 2 ** 31 }, RangeError],
      ];
      for (const [options, kind] of wrong) assert.throws(() => new Nflog(options as never, () => {}), kind);
      assert.throws(() => new Nflog({ group: 5 }, 'no function' as never), TypeError);
      listen();
    });

    it('keeps the process alive, unless unref() was called or it was closed', () => {
      const program = (line: string, timeout = 30_000): number | null =>
        spawnSync(
          process.execPath,
          [
            '--input-type=module',
            '-e',
            `import { Nflog } from '${library}'; const nflog = new Nflog({ group: 5 }, () => {}); ${line}`,
          ],
          { timeout },
        ).status;
      assert.equal(program('', 3_000), null);
      assert.equal(program('nflog.unref();'), 0);
      assert.equal(program('await nflog.close();'), 0);
    }).timeout(60_000);
  });
});
