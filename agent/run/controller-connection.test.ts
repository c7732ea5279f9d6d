import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { NodeState } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { Log } from '../../lib/process/log.ts';
import { freePorts } from '../../test/cluster/daemon.ts';
import { type FakeControlPlane, fakeControlPlane } from '../../test/fake/control-plane.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { destinationOf } from '../receive/destinations.ts';
import { fold } from '../receive/fold.ts';
import { NO_METRICS } from './agent-metrics.ts';
import { ControllerConnection, type ControllerConnectionOptions } from './controller-connection.ts';

const NODE = 'node-0';
const [FIRST, SECOND] = [100, 101].map((port) => nodeState(closing('ports', port))) as [NodeState, NodeState];

type Happened = (name: string, detail?: string | null) => void;

/** The parts that call `happened` for each event, metric and log line. */
function parts(plane: FakeControlPlane, clock: FakeClock, happened: Happened): ControllerConnectionOptions {
  const line = (message: string): void => happened('log', message);
  return {
    node: NODE,
    controller: plane,
    api: null,
    certificates: null,
    addresses: () => [],
    replicas: () => [],
    policies: () => [],
    log: { debug() {}, info: line, warn: line, error: line, log() {} } as unknown as Log,
    metrics: {
      ...NO_METRICS,
      connected: (isThere) => happened('metric connected', String(isThere)),
      bookmark: () => happened('metric bookmark'),
    },
    clock: { ...clock, date: () => new Date(clock.now()) },
    random: () => 1,
    nodeData: async () => '',
    events: {
      connected: (address) => happened('connected', address),
      accepts: () => true,
      folded: ({ state }) => happened('folded', String(state.rules.length)),
      disconnected: () => happened('disconnected'),
      unfollowable: (reason) => happened('unfollowable', reason),
      seen: () => happened('seen'),
      learned: () => happened('learned'),
    },
  };
}

describe('ControllerConnection', function () {
  this.timeout(20_000);
  let plane: FakeControlPlane;
  let clock: FakeClock;
  let connection: ControllerConnection;
  let names: string[];
  let details: (string | null)[];
  let awaySince: (string | null)[];
  let look: () => void;

  beforeEach(async () => {
    plane = await fakeControlPlane(NODE);
    clock = fakeClock();
    [names, details, awaySince, look] = [[], [], [], () => {}];
  });
  afterEach(async () => {
    await connection.close();
    await plane.close();
  });

  function connect(
    change: (usual: ControllerConnectionOptions) => Partial<ControllerConnectionOptions> = () => ({}),
  ): void {
    const usual = parts(plane, clock, (name, detail = null) => {
      names.push(name);
      details.push(detail);
      awaySince.push(connection.awaySince);
      look();
    });
    connection = new ControllerConnection({ ...usual, ...change(usual) });
    connection.follow(fold(NODE), false);
  }
  async function happened(name: string, times = 1): Promise<void> {
    const isSo = (): boolean => names.filter((one) => one === name).length >= times;
    while (!isSo()) {
      await new Promise<void>((resolve) => {
        look = resolve;
      });
    }
  }
  const detailOf = (name: string) => details[names.lastIndexOf(name)];

  it('reaches a controller, then receives its view', async () => {
    plane.publish(FIRST);
    connect();
    await happened('folded');
    assert.deepEqual(
      names.filter((one) => one !== 'log'),
      ['metric connected', 'connected', 'metric bookmark', 'folded'],
    );
    assert.equal(detailOf('connected'), '127.0.0.1');
    assert.equal(detailOf('log'), 'following the controller');
  });

  it('reaches a controller past its URL, whose addresses that one is not among', async () => {
    plane.publish(FIRST);
    const url = new URL(plane.url);
    const [port] = await freePorts(1);
    url.port = String(port);
    connect(({ controller }) => ({
      controller: { ...controller, url },
      replicas: () => [destinationOf(plane.url)],
    }));
    await happened('folded');
    assert.equal(detailOf('connected'), '');
  });

  it('drops a view that is not accepted, and counts no bookmark', async () => {
    plane.publish(FIRST);
    let asked = 0;
    const accepts = (): boolean => ++asked > 1;
    connect(({ events }) => ({ events: { ...events, accepts } }));
    await happened('connected');
    plane.publish(SECOND);
    await happened('folded');
    assert.equal(asked, 2);
    assert.equal(names.filter((one) => one === 'metric bookmark').length, 1);
  });

  it('knows since when no controller answers, until it has a view again', async () => {
    plane.publish(FIRST);
    connect();
    await happened('folded');
    clock.pass(1_000);
    plane.cut('end');
    await happened('disconnected');
    assert.equal(awaySince.at(-1), '1970-01-01T00:00:01.000Z');
    clock.pass(500);
    await happened('folded', 2);
    assert.equal(awaySince[names.lastIndexOf('connected')], '1970-01-01T00:00:01.000Z');
    assert.equal(awaySince[names.lastIndexOf('folded')], null);
  });

  it('does not count as away when messages do not match the view, which is requested again', async () => {
    plane.publish(FIRST);
    connect();
    await happened('folded');
    plane.fault((line) => line.replace(/"rules":\d+,/, '"rules":77,'));
    plane.publish(SECOND);
    await happened('metric connected', 2);
    await happened('log', 2);
    assert.equal(detailOf('metric connected'), 'false');
    assert.match(String(detailOf('log')), /do not match the view; requesting a full view/);
    plane.fault(null);
    clock.pass(500);
    await happened('folded', 2);
    assert.ok(!names.includes('disconnected') && !names.includes('unfollowable'), names.join());
  });

  it('sends reports from when it is told to', async () => {
    connect();
    connection.report(true);
    assert.deepEqual(
      clock.waiting().filter((wait) => wait <= 1_000),
      [],
    );
    connection.startReports(() => ({ node: NODE }) as NodeReport);
    clock.pass(1_000);
    await plane.until(() => plane.reports.length === 1);
    assert.deepEqual(plane.reports, [{ node: NODE }]);
  });

  it('keeps the certificates that the API server has, and has them saved', async () => {
    const pem = await readFile(plane.caFile, 'utf8');
    const api = { authorities: async () => pem } as unknown as ControllerConnectionOptions['api'];
    plane.publish(FIRST);
    connect(({ controller }) => ({ api, controller: { ...controller, caFile: null } }));
    assert.equal(connection.certificates, null);
    await happened('folded');
    assert.equal(connection.certificates, pem);
    assert.equal(names[0], 'learned');
  });

  it('answers no question after abort, and follows the view until it is closed', async () => {
    plane.publish(FIRST);
    connect();
    await happened('folded');
    plane.refuse(({ url = '' }) => (url.includes('watch=true') ? null : 'hang'));
    const asked = connection.askInward({ probes: [], milliseconds: 1_000 });
    await plane.until(() => plane.hanging() === 1);
    connection.abort();
    await assert.rejects(asked, /ended/);
    await assert.rejects(connection.askInward({ probes: [], milliseconds: 1_000 }), /ended/);
    plane.publish(SECOND);
    await happened('folded', 2);
    assert.equal(plane.hanging(), 1);
    await connection.close();
    await plane.until(() => plane.open() === 0);
    assert.ok(!names.includes('disconnected'));
  });
});
