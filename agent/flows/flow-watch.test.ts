import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { BegunBatch } from 'nftables-napi';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type Ends, scannedConnection } from '../../test/fake/record.ts';
import { FlowFacts } from './flow-facts.ts';
import { FlowInventory } from './flow-inventory.ts';
import { FlowWatch, MOST_EVENTS } from './flow-watch.ts';

const NODE = '192.0.2.1';
const PODS = 8;
const DNAT = 1 << 5;
const EXPECTED = 1;
const TIME_WAIT = 7;

/** Columns of /proc/net/route: Iface Destination Gateway Flags RefCnt Use Metric Mask. */
const POD_ROUTE = 'Iface\nveth1 0000F40A 0 0001 0 0 0 00FFFFFF 0 0 0\n';

class Bed {
  readonly clock = { ...fakeClock(), date: () => new Date(1_000_000_000 + this.clock.now()) };
  readonly inventory = new FlowInventory(1_000_000_000);
  readonly log: string[] = [];
  readonly troubles: string[] = [];
  /** The kernel's table. */
  table: Ends[] = [];
  scans = 0;
  scanError: Error | null = null;
  /** Run while the table is read. */
  duringScan = async (): Promise<void> => {};
  factsError: Error | null = null;
  factReadings = 0;
  facts = this.factsWith('');
  /** The listener of each monitor that is open. */
  readonly open = new Set<(batch: BegunBatch) => void>();
  readonly watch: FlowWatch;

  constructor(hasEvents = true) {
    this.watch = new FlowWatch({
      node: 'n',
      inventory: this.inventory,
      clock: this.clock,
      pods: PODS,
      hasEvents,
      log: { error: (message) => this.log.push(message) },
      openMonitor: (_, listener) => {
        this.open.add(listener);
        return { close: () => void this.open.delete(listener) };
      },
      scan: async (visit) => {
        this.scans++;
        if (this.scanError !== null) throw this.scanError;
        await this.duringScan();
        for (const one of this.table) visit(scannedConnection(one));
      },
      readFacts: async () => {
        this.factReadings++;
        if (this.factsError !== null) throw this.factsError;
        return this.facts;
      },
      changed() {},
      troubled: (trouble) => this.troubles.push(trouble),
    });
  }

  factsWith(ipv4: string): FlowFacts {
    return new FlowFacts({
      addresses: [
        { address: NODE, netmask: '255.255.255.0' },
        { address: '127.0.0.1', netmask: '255.0.0.0' },
        { address: '2001:db8::1', netmask: 'ffff:ffff:ffff:ffff::' },
      ],
      links: [
        { name: 'eth0', group: 0 },
        { name: 'veth1', group: PODS },
      ],
      routes: { ipv4, ipv6: '' },
    });
  }

  async begun(ends: readonly Ends[], { overrun = false } = {}): Promise<void> {
    for (const listener of this.open)
      listener({
        overrun,
        error: null,
        each(visit, most = Infinity) {
          const read = ends.slice(0, most);
          for (const one of read) visit(scannedConnection(one));
          return read.length;
        },
      });
    await this.settle();
  }

  async pass(milliseconds: number): Promise<void> {
    this.clock.pass(milliseconds);
    await this.settle();
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 5; i++) await turn();
  }

  /** The start waits for events. */
  async started(): Promise<void> {
    const started = this.watch.start();
    await this.pass(150);
    await started;
  }

  texts(): string[] {
    return this.inventory.kinds().map(({ last, peer, connections, live }) => {
      const { direction, traffic, protocol, port, type, group } = last;
      return `${direction} ${traffic} ${peer} ${protocol} ${port ?? type} group ${group}: ${connections}, ${live} live`;
    });
  }
}

describe('the watch of connections', () => {
  let bed: Bed;
  beforeEach(() => {
    bed = new Bed();
  });
  afterEach(() => bed.watch.close());

  it('finds what rules decide about, and nothing else', async () => {
    bed.facts = bed.factsWith(POD_ROUTE);
    bed.table = [
      { src: '198.51.100.7', dst: NODE, port: 22 },
      { src: '198.51.100.7', dst: NODE, port: 22, tcpState: TIME_WAIT },
      { src: NODE, dst: '198.51.100.7', port: 443 },
      { src: '2001:db8::7', dst: '2001:db8::1', protocol: 58, icmpType: 128 },
      // By a Service's address to a local pod; through NodePorts, to a pod and to the node itself.
      { src: NODE, dst: '10.96.0.1', port: 80, to: '10.244.0.5', toPort: 8080, status: DNAT },
      { src: '198.51.100.8', dst: NODE, port: 30_080, to: '10.244.0.5', toPort: 8080, status: DNAT },
      { src: '198.51.100.8', dst: NODE, port: 30_443, to: NODE, toPort: 8443, status: DNAT },
      { src: '198.51.100.9', dst: '224.0.0.18', protocol: 112 },
      { src: '198.51.100.9', dst: '192.0.2.255', port: 137, protocol: 17 },
      // Forwarded, by a local pod through a NodePort, on the machine itself, FTP's data.
      { src: '198.51.100.7', dst: '10.244.0.5', port: 80 },
      { src: '10.244.0.6', dst: NODE, port: 30_080, to: '10.244.0.5', toPort: 8080, status: DNAT },
      { src: NODE, dst: NODE, port: 22 },
      { src: '127.0.0.1', dst: '127.0.0.1', port: 22 },
      { src: '198.51.100.7', dst: NODE, port: 20, status: EXPECTED },
    ];
    await bed.started();
    assert.deepEqual(bed.texts(), [
      'ingress Host 198.51.100.7 6 22 group 0: 2, 1 live',
      'egress Host 198.51.100.7 6 443 group 0: 1, 1 live',
      'ingress Host 2001:db8::7 58 128 group 0: 1, 1 live',
      `egress Host 10.244.0.5 6 8080 group ${PODS}: 1, 1 live`,
      'ingress NodePort 198.51.100.8 6 30080 group 0: 1, 1 live',
      'ingress NodePort 198.51.100.8 6 30443 group 0: 1, 1 live',
      'ingress Host 198.51.100.8 6 8443 group 0: 1, 1 live',
      'ingress Host 198.51.100.9 112 null group 0: 1, 1 live',
      'ingress Host 198.51.100.9 17 137 group 0: 1, 1 live',
    ]);
  });

  it('counts what begins, and those of a new pod by its route', async () => {
    await bed.started();
    const ssh = { src: '198.51.100.7', dst: NODE, port: 22 };
    const probe = { src: NODE, dst: '10.244.0.5', port: 8080 };
    await bed.pass(2_000);
    await bed.begun([ssh, ssh]);
    assert.equal(bed.texts().length, 1);
    bed.facts = bed.factsWith(POD_ROUTE);
    await bed.begun([ssh, probe, probe]);
    assert.equal(bed.texts().length, 1, 'it waits for the routes');
    await bed.pass(2_000);
    await bed.begun([probe]);
    await bed.pass(2_000);
    assert.deepEqual(bed.texts(), [
      'ingress Host 198.51.100.7 6 22 group 0: 3, null live',
      `egress Host 10.244.0.5 6 8080 group ${PODS}: 3, null live`,
    ]);
    bed.table = [ssh, probe, probe];
    const looked = bed.watch.read();
    await bed.pass(150);
    assert.equal(await looked, true);
    assert.deepEqual(
      bed.texts().map((text) => text.slice(text.indexOf(':'))),
      [': 3, 1 live', ': 3, 2 live'],
    );
  });

  it('counts a connection once that begins while the table is read', async () => {
    await bed.started();
    await bed.pass(10_000);
    const ssh = { src: '198.51.100.7', dst: NODE, port: 22 };
    bed.table = [ssh, ssh];
    bed.duringScan = () => bed.begun([ssh, ssh]);
    const looked = bed.watch.read();
    await bed.pass(150);
    assert.equal(await looked, true);
    await bed.pass(2_000);
    assert.deepEqual(bed.texts(), ['ingress Host 198.51.100.7 6 22 group 0: 2, 2 live']);
  });

  it('reads facts for what is new, not for each connection of a pod to a Service', async () => {
    bed.facts = bed.factsWith(POD_ROUTE);
    await bed.started();
    const toService = { src: '10.244.0.6', dst: '10.96.0.1', port: 80, to: '10.9.0.5', status: DNAT };
    const readings: number[] = [];
    for (let i = 0; i < 5; i++) {
      await bed.begun([toService]);
      await bed.pass(2_000);
      readings.push(bed.factReadings);
    }
    assert.deepEqual(readings, [2, 2, 2, 2, 2]);
    assert.equal(bed.inventory.size, 0);
  });

  it('keeps a bounded number of new flows if no facts can be read, and tries every 2 s', async () => {
    await bed.started();
    bed.factsError = new Error('EMFILE');
    const flood = (from: number): Ends[] =>
      Array.from({ length: 1_000 }, (_, i) => ({
        src: `10.${(from + i) >> 16}.${((from + i) >> 8) & 255}.${(from + i) & 255}`,
        dst: NODE,
        port: 22,
      }));
    for (let second = 0; second < 12; second++) {
      await bed.begun(flood(second * 1_000));
      await bed.pass(1_000);
    }
    assert.ok(bed.factReadings <= 8, `${bed.factReadings} readings`);
    assert.equal(bed.log.length, 1);
    bed.factsError = null;
    await bed.begun(flood(12_000));
    await bed.pass(2_000);
    const counted = bed.inventory.kinds().reduce((sum, { connections }) => sum + connections, 0);
    assert.equal(counted, 10_000);
  });

  it('listens no more in a second in which too many begin, and reads the table afterwards', async () => {
    await bed.started();
    const many = Array.from({ length: MOST_EVENTS + 1 }, () => ({
      src: '198.51.100.7',
      dst: NODE,
      port: 22,
    }));
    await bed.begun(many.slice(0, 10));
    assert.deepEqual([bed.open.size, bed.inventory.missed.busySeconds], [1, 0]);
    await bed.begun(many);
    assert.deepEqual([bed.open.size, bed.inventory.missed.busySeconds], [0, 1]);
    await bed.pass(2_000);
    assert.equal(bed.open.size, 1);
    assert.deepEqual(bed.texts(), [`ingress Host 198.51.100.7 6 22 group 0: ${MOST_EVENTS}, null live`]);
    bed.table = [{ src: '198.51.100.8', dst: NODE, port: 22 }];
    assert.equal(bed.scans, 1);
    await bed.pass(8_000);
    await bed.pass(150);
    assert.equal(bed.scans, 2);
    assert.ok(bed.texts().includes('ingress Host 198.51.100.8 6 22 group 0: 1, 1 live'));
  });

  it('reads the table after an overrun, hourly, and not more often', async () => {
    await bed.started();
    await bed.begun([], { overrun: true });
    await bed.begun([], { overrun: true });
    assert.deepEqual([bed.inventory.missed.overruns, bed.troubles], [2, ['overrun', 'overrun']]);
    await bed.pass(10_000);
    await bed.pass(150);
    assert.equal(bed.scans, 2);
    await bed.pass(3_599_000);
    assert.equal(bed.scans, 2);
    await bed.pass(1_000);
    await bed.pass(150);
    assert.equal(bed.scans, 3);
  });

  it('reads the table all the time where the kernel makes no events', async () => {
    bed = new Bed(false);
    await bed.watch.start();
    assert.deepEqual([bed.open.size, bed.scans], [0, 1]);
    await bed.pass(30_000);
    assert.equal(bed.scans, 2);
  });

  it('says once that the table cannot be read, and goes on', async () => {
    bed.scanError = new Error('EPERM');
    await bed.started();
    assert.equal(bed.watch.lastRead, null);
    const again = bed.watch.read();
    await bed.pass(150);
    assert.equal(await again, false);
    assert.equal(bed.log.length, 1);
    await bed.pass(2_000);
    await bed.begun([{ src: '198.51.100.7', dst: NODE, port: 22 }]);
    assert.equal(bed.inventory.size, 1);
    bed.scanError = null;
    const third = bed.watch.read();
    await bed.pass(150);
    assert.equal(await third, true);
  });
});
