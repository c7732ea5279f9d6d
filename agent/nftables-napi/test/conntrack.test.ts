import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  BegunMonitor,
  Conntrack,
  type ConntrackBatch,
  type ConntrackEntry,
  ConntrackMonitor,
  type NewConnection,
  SOCKET_STATE,
  SocketTable,
  TCP_CONNTRACK,
  TcpSockets,
} from '../lib/index.ts';
import { inNamespace, ip, nft } from './netns.ts';

function conntrack(...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync('conntrack', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`conntrack ${args.join(' ')}: ${stderr ?? error}`);
  return stdout;
}

function add(port: number): void {
  const ends = ['-s', '10.0.0.1', '-d', '10.0.0.2', '--sport', String(port), '--dport', '80'];
  conntrack('-I', '-p', 'udp', ...ends, '-t', '600');
}

inNamespace(import.meta.filename, () => {
  let table: Conntrack;
  before(() => {
    ip('link', 'set', 'lo', 'up');
    // Without a rule that asks for it, nothing is tracked.
    nft('add table inet t; add chain inet t c { type filter hook input priority 0; }');
    nft('add rule inet t c ct state established accept');
  });
  beforeEach(() => {
    conntrack('-F');
    table = new Conntrack();
  });
  afterEach(() => table.close());

  const all = async (): Promise<ConntrackEntry[]> => (await Array.fromAsync(table.entries())).flat();

  describe('Conntrack', () => {
    it('reads an empty table, and many entries in chunks', async () => {
      assert.deepEqual(await all(), []);
      const ends = ['-p', 'udp', '-s', '10.0.0.1', '-d', '10.0.0.2', '-t', '600', '--dport', '80'];
      const lines = Array.from({ length: 3_000 }, (_, i) => `-A ${ends.join(' ')} --sport ${1000 + i}`);
      const file = path.join(tmpdir(), `conntrack-${process.pid}`);
      writeFileSync(file, `${lines.join('\n')}\n`);
      try {
        conntrack('-R', file);
      } finally {
        rmSync(file);
      }
      const chunks = await Array.fromAsync(table.entries());
      assert.ok(chunks.length > 1, `${chunks.length} chunks`);
      const ports = new Set(chunks.flat().map(({ original }) => original.sourcePort));
      assert.equal(ports.size, 3_000);
      const results = await table.delete(chunks.flat());
      assert.ok(results.every((result) => result === null));
      assert.deepEqual(await all(), []);
    });

    it('deletes by id: no other entry with the same ends', async () => {
      add(1000);
      add(1001);
      const [entry] = (await all()).filter(({ original }) => original.sourcePort === 1000);
      assert.ok(entry);
      const identity = entry.identity.map((attribute) => {
        const isId = attribute[2] === 12;
        return isId ? attribute.map((byte, i) => (i === 7 ? byte ^ 1 : byte)) : attribute;
      });
      assert.equal((await table.delete([{ ...entry, identity }]))[0]?.code, 'ENOENT');
      assert.equal((await all()).length, 2);
      assert.deepEqual(await table.delete([entry]), [null]);
      assert.equal((await table.delete([entry]))[0]?.code, 'ENOENT');
      assert.equal((await all()).length, 1);
    });

    it('sets the bits of a mark that are meant', async () => {
      add(1000);
      const [entry] = await all();
      assert.ok(entry);
      assert.deepEqual(await table.mark([entry], 0x2d00_00ff, 0xffff_ffff), [null]);
      assert.deepEqual(await table.mark([entry], 0x4000_0000, 0x7f00_0000), [null]);
      assert.equal((await all())[0]?.mark, 0x4000_00ff);
      await table.delete([entry]);
      assert.equal((await table.mark([entry], 1, 1))[0]?.code, 'ENOENT');
    });

    it('reads those alone with some bits in the mark', async () => {
      for (const port of [1000, 1001, 1002]) add(port);
      const [one, two] = await all();
      assert.ok(one && two);
      await table.mark([one], 0x0500_0001, 0xffff_ffff);
      await table.mark([two], 0x0600_0001, 0xffff_ffff);
      const filter = { mark: 0x0500_0000, mask: 0x7f00_0000 };
      const found = (await Array.fromAsync(table.entries(filter))).flat();
      assert.deepEqual(
        found.map(({ original }) => original.sourcePort),
        [one.original.sourcePort],
      );
    });

    it('visits the same as it reads, of every protocol', async () => {
      const families = [
        ['-s', '10.0.0.1', '-d', '10.0.0.2'],
        ['-s', 'fd00::1', '-d', 'fd00::2'],
      ];
      for (const [i, ends] of families.entries()) {
        const icmp = i === 0 ? ['icmp', '--icmp-type', '8'] : ['icmpv6', '--icmpv6-type', '128'];
        const [proto = '', ...type] = icmp;
        conntrack(
          '-I',
          '-p',
          proto,
          ...ends,
          ...type,
          i === 0 ? '--icmp-code' : '--icmpv6-code',
          '0',
          ...['--icmp-id', '7'].map((word) => (i === 0 ? word : word.replace('icmp', 'icmpv6'))),
          '-t',
          '600',
        );
        const ports = ['--sport', '1000', '--dport', '80', '-t', '600'];
        conntrack('-I', '-p', 'tcp', ...ends, ...ports, '--state', 'ESTABLISHED');
        conntrack('-I', '-p', 'udp', ...ends, ...ports);
      }
      const translated = ['--reply-src', '10.0.0.9', '--reply-dst', '10.0.0.1', '--reply-port-src', '8080'];
      const ends = ['-s', '10.0.0.1', '-d', '10.0.0.2', '--sport', '2000', '--dport', '80', '-t', '600'];
      conntrack('-I', '-p', 'udp', ...ends, ...translated, '--reply-port-dst', '2000');
      const visited: string[] = [];
      const at = (bytes: Buffer, place: number, width: number) => bytes.toString('hex', place, place + width);
      await table.scan(
        (one) => {
          const width = one.family === 4 ? 4 : 16;
          const places = [one.source, one.destination, one.replySource];
          const numbers = [
            one.sourcePort,
            one.destinationPort,
            one.replySourcePort,
            one.icmpType,
            one.icmpCode,
          ];
          visited.push(
            [
              one.protocol,
              one.status,
              one.tcpState,
              ...places.map((place) => at(one.bytes, place, width)),
              ...numbers,
            ].join(),
          );
        },
        () => true,
      );
      const wanted = (await all()).map(({ protocol, status, tcpState, original, reply }) => {
        const addresses = [original.source, original.destination, reply.source];
        const numbers = [original.sourcePort, original.destinationPort, reply.sourcePort];
        const types = [original.icmpType, original.icmpCode];
        return [
          ...[
            protocol,
            status,
            tcpState ?? -1,
            ...addresses.map((bytes) => Buffer.from(bytes).toString('hex')),
          ],
          ...[...numbers, ...types].map((number) => number ?? -1),
        ].join();
      });
      assert.equal(visited.length, 7);
      assert.deepEqual(visited.sort(), wanted.sort());
      let calls = 0;
      await table.scan(
        () => calls++,
        () => false,
      );
      assert.equal(calls, 7, 'one chunk, and no more after it');
    });

    it('adds connections in their direction, and makes those that it tracks answered ones', async () => {
      const ends = { source: Uint8Array.of(10, 0, 0, 1), destination: Uint8Array.of(10, 0, 0, 2) };
      const tcp: NewConnection = {
        protocol: 6,
        ...ends,
        sourcePort: 1000,
        destinationPort: 22,
        tcpState: TCP_CONNTRACK.established,
        isAnswered: true,
        timeout: 600,
      };
      const asked: NewConnection = {
        ...tcp,
        sourcePort: 1001,
        tcpState: TCP_CONNTRACK.synSent,
        isAnswered: false,
      };
      const six = (last: number) => Uint8Array.of(0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last);
      const udp: NewConnection = {
        ...tcp,
        protocol: 17,
        tcpState: null,
        source: six(1),
        destination: six(2),
      };
      assert.deepEqual(await table.add([tcp, asked, udp]), [null, null, null]);
      const shown = () =>
        conntrack('-L', '-f', 'ipv6') + conntrack('-L', '-f', 'ipv4').replaceAll(/ +/g, ' ');
      assert.match(
        shown(),
        /tcp 6 \d+ ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1000 dport=22 src=10.0.0.2 dst=10.0.0.1 sport=22 dport=1000 \[ASSURED\]/,
      );
      assert.match(shown(), /tcp 6 \d+ SYN_SENT .*sport=1001 .*\[UNREPLIED\]/);
      assert.match(shown(), /udp .*src=fd00::1 dst=fd00::2 sport=1000 dport=22 src=fd00::2 .*\[ASSURED\]/);
      // As the kernel takes up a connection in the middle, by a packet of its other end.
      const back = {
        source: ends.destination,
        destination: ends.source,
        sourcePort: 22,
        destinationPort: 1001,
      };
      assert.deepEqual(await table.add([{ ...asked, ...back, isAnswered: true }]), [null]);
      assert.match(shown(), /SYN_SENT src=10.0.0.1 dst=10.0.0.2 sport=1001 .*\[ASSURED\]/);
      assert.equal((await all()).length, 3);
    });

    it('stops reading when the caller does', async () => {
      add(1000);
      for await (const _ of table.entries()) break;
      assert.equal((await all()).length, 1);
    });

    it('is refused after close', async () => {
      add(1000);
      const entries = await all();
      await table.close();
      await assert.rejects(table.delete(entries), { code: 'CLOSED' });
    });
  });

  describe('ConntrackMonitor', () => {
    it('reports the beginning and the end of the connections whose mark is meant, with their bytes', async () => {
      const batches: ConntrackBatch[] = [];
      const heard = new EventEmitter();
      writeFileSync('/proc/sys/net/netfilter/nf_conntrack_acct', '1');
      const monitor = new ConntrackMonitor({ mark: 0x40000000, mask: 0x40000000 }, (batch) => {
        batches.push(structuredClone(batch)); // it shares memory with the batch
        heard.emit('batch');
      });
      try {
        const ends = ['-p', 'udp', '-s', '10.0.0.1', '-d', '10.0.0.2', '--dport', '80'];
        for (const [port, mark] of [
          [1000, 0],
          [1001, 0x4100_0000],
        ])
          conntrack('-I', ...ends, '--sport', `${port}`, '-t', '600', '-m', `${mark}`);
        conntrack('-D', ...ends);
        while (batches.flatMap(({ events }) => events).length < 2) await once(heard, 'batch');
        const [begun, ended, ...more] = batches.flatMap(({ events }) => events);
        assert.deepEqual(more, []);
        assert.deepEqual([begun?.event, ended?.event], ['begun', 'ended']);
        assert.deepEqual([begun?.entry.original.sourcePort, begun?.entry.mark], [1001, 0x4100_0000]);
        assert.equal(begun?.id, ended?.id);
        assert.deepEqual(ended?.bytes, { original: 0, reply: 0 });
      } finally {
        await monitor.close();
      }
    });

    it('says so if events are lost, and goes on', async () => {
      const heard = new EventEmitter();
      let [overruns, events] = [0, 0];
      const monitor = new ConntrackMonitor({ mark: 0, mask: 0, receiveBuffer: 4096 }, (batch) => {
        if (batch.overrun) overruns++;
        events += batch.events.length;
        heard.emit('batch');
      });
      try {
        const ends = ['-p', 'udp', '-s', '10.0.0.1', '-d', '10.0.0.2', '-t', '600', '--dport', '80'];
        const lines = Array.from({ length: 3_000 }, (_, i) => `-A ${ends.join(' ')} --sport ${1000 + i}`);
        const file = path.join(tmpdir(), `conntrack-${process.pid}`);
        writeFileSync(file, `${lines.join('\n')}\n`);
        // The thread of this test is the listener's.
        conntrack('-R', file);
        rmSync(file);
        while (overruns === 0) await once(heard, 'batch');
        const before = events;
        add(9000);
        while (events === before) await once(heard, 'batch');
      } finally {
        await monitor.close();
      }
    });
  });

  describe('BegunMonitor', () => {
    it('lets the connections that begin be visited, gathered, without those that end', async () => {
      const heard = new EventEmitter();
      const ports: number[] = [];
      const read: number[] = [];
      const started = performance.now();
      const monitor = new BegunMonitor({ pause: 100 }, ({ each }) => {
        read.push(each((one) => ports.push(one.sourcePort), 3));
        heard.emit('batch');
      });
      try {
        add(1000);
        while (ports.length < 1) await once(heard, 'batch');
        for (const port of [1001, 1002]) add(port);
        conntrack('-D', '-p', 'udp');
        for (const port of [1003, 1004]) add(port);
        while (ports.at(-1) !== 1003 && ports.length < 4) await once(heard, 'batch');
        // Batches may be delivered together, but the thread has paused before each of them.
        const most = 1 + (performance.now() - started) / 95;
        assert.ok(read.length <= most, `${read.length} batches, not ${most}`);
        assert.deepEqual(ports.slice(0, 4), [1000, 1001, 1002, 1003]);
        assert.ok(
          read.every((count) => count <= 3),
          read.join(),
        );
      } finally {
        await monitor.close();
      }
    });
  });

  describe('TcpSockets', () => {
    it('resets a connection of either family, and never what listens', async () => {
      const sockets = new TcpSockets();
      const server = createServer((socket) => socket.on('error', () => undefined));
      server.listen(0, '::');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      for (const host of ['127.0.0.1', '::1']) {
        const socket = connect(port, host);
        await once(socket, 'connect');
        const [entry] = (await all()).filter(({ original }) => original.sourcePort === socket.localPort);
        assert.ok(entry);
        const { source, destination } = entry.reply;
        const name = {
          local: source,
          localPort: port,
          remote: destination,
          remotePort: socket.localPort ?? 0,
        };
        const reset = once(socket, 'error');
        assert.deepEqual(await sockets.destroy([name]), [null]);
        assert.match(String((await reset)[0]), /ECONNRESET/);
        const other = { ...name, localPort: 1 };
        const results = await sockets.destroy([name, other]);
        assert.deepEqual([results[0], results[1]?.code], [null, 'ENOENT']);
      }
      assert.ok(server.listening);
      const again = connect(port, '127.0.0.1');
      await once(again, 'connect');
      again.destroy();
      server.close();
      await sockets.close();
    });
  });

  describe('SocketTable', () => {
    it('reads the sockets of a family in some states, and their ends', async () => {
      const server = createServer((socket) => socket.on('error', () => undefined));
      server.listen(0, '::');
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const sockets = new SocketTable();
      const clients = ['127.0.0.1', '::1'].map((host) => connect(port, host));
      await Promise.all(clients.map((socket) => once(socket, 'connect')));
      async function read(family: 4 | 6, states: number): Promise<string[]> {
        const found = (await Array.fromAsync(sockets.sockets({ family, protocol: 6, states }))).flat();
        return found
          .map(({ local, localPort, remote, remotePort }) => {
            const ends = [local, remote].map((bytes) => Buffer.from(bytes).toString('hex'));
            return `${ends[0]}:${localPort} ${ends[1]}:${remotePort}`;
          })
          .sort();
      }
      const [four, six] = clients.map(({ localPort }) => localPort);
      const v4 = '7f000001';
      const mapped = `${'0'.repeat(20)}ffff${v4}`;
      const v6 = '1'.padStart(32, '0');
      const any = '0'.repeat(32);
      const { established, listen } = SOCKET_STATE;
      assert.deepEqual(await read(4, established), [`${v4}:${four} ${v4}:${port}`]);
      const ofSix = [
        `${mapped}:${port} ${mapped}:${four}`,
        `${v6}:${port} ${v6}:${six}`,
        `${v6}:${six} ${v6}:${port}`,
      ];
      assert.deepEqual(await read(6, established), ofSix.sort());
      assert.deepEqual(await read(6, listen), [`${any}:${port} ${any}:0`]);
      for (const socket of clients) socket.destroy();
      server.close();
    });
  });
});
