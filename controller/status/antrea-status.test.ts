import assert from 'node:assert/strict';
import type { Log } from '../../lib/process/log.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { KubeError } from '../kubeapi/kube-error.ts';
import { AntreaController } from './antrea-status.ts';

const GROUP = '/apis/crd.antrea.io/v1beta1';
const DEPLOYMENT = '/apis/apps/v1/namespaces/kube-system/deployments/antrea-controller';
const INFO = `${GROUP}/antreacontrollerinfos/antrea-controller`;
const STATUS = 'clusternetworkpolicies/status';

describe('AntreaController', () => {
  let api: FakeKubeApi;
  let clock: FakeClock & { date(): Date };
  let controller: AntreaController;
  let warnings: string[];
  let changes: boolean[];
  let isNeeded: boolean;

  beforeEach(() => {
    api = fakeKubeApi();
    const time = fakeClock();
    clock = Object.assign(time, { date: () => new Date(time.now()) });
    warnings = [];
    changes = [];
    isNeeded = true;
    const log = {
      info: () => {},
      warn: (_: string, fields: object) => void warnings.push(JSON.stringify(fields)),
    };
    controller = new AntreaController({
      request: api.request,
      clock,
      log: log as unknown as Log,
      isNeeded: () => isNeeded,
      changed: (isAbsent) => void changes.push(isAbsent),
    });
    discover([STATUS, 'antreacontrollerinfos']);
  });

  function discover(names: readonly string[]): void {
    api.put(GROUP, { resources: names.map((name) => ({ name })) });
  }

  async function settled(): Promise<void> {
    for (let i = 0; i < 10; i++) await new Promise(setImmediate);
  }

  /** The answer after its next look. */
  async function next(): Promise<boolean | undefined> {
    clock.pass(15_000);
    await settled();
    return changes.at(-1);
  }

  const beat = (age: number): void =>
    api.put(INFO, {
      controllerConditions: [{ lastHeartbeatTime: new Date(clock.now() - age).toISOString() }],
    });

  it('follows the Deployment of Antrea, while it leads', async () => {
    await settled();
    assert.equal(api.requests.length, 0);
    controller.lead(true);
    await settled();
    assert.deepEqual(changes, [true]);
    api.put(DEPLOYMENT, { spec: {} });
    assert.equal(await next(), false);
    api.put(DEPLOYMENT, { spec: { replicas: 0 } });
    assert.equal(await next(), true);
    controller.lead(false);
    assert.equal(changes.at(-1), false);
    const before = api.requests.length;
    await next();
    assert.equal(api.requests.length, before);
  });

  it('follows the heartbeats of one that is installed elsewhere', async () => {
    clock.pass(1_000_000);
    beat(0);
    controller.lead(true);
    await settled();
    assert.deepEqual(changes, []);
    for (let i = 0; i < 11; i++) assert.equal(await next(), undefined, `at ${i}`);
    assert.equal(await next(), true);
    beat(100_000);
    assert.equal(await next(), false);
    api.put(INFO, { controllerConditions: [{ lastHeartbeatTime: 'soon' }] });
    assert.equal(await next(), false);
    api.objects.delete(INFO);
    assert.equal(await next(), true);
  });

  it('follows heartbeats that change, whatever the clock of who writes them says', async () => {
    clock.pass(1_000_000);
    beat(600_000);
    controller.lead(true);
    await settled();
    assert.equal(changes.at(-1), true);
    assert.equal(await next(), true);
    for (let minute = 0; minute < 3; minute++) {
      beat(600_000);
      for (let i = 0; i < 4; i++) assert.equal(await next(), false);
    }
    // Three minutes after the last one.
    for (let i = 0; i < 8; i++) assert.equal(await next(), false);
    assert.equal(await next(), true);
    beat(600_000);
    assert.equal(await next(), false);
    // A heartbeat that came while another process led is no change between two looks.
    controller.lead(false);
    beat(500_000);
    controller.lead(true);
    await settled();
    assert.equal(changes.at(-1), true);
  });

  it('asks nothing without policies of Antrea, and writes none that have no status', async () => {
    isNeeded = false;
    controller.lead(true);
    assert.equal(await next(), undefined);
    assert.equal(api.requests.length, 0);
    isNeeded = true;
    discover(['clusternetworkpolicies']);
    assert.equal(await next(), undefined);
    discover([STATUS]);
    assert.equal(await next(), true);
    api.objects.delete(GROUP);
    assert.equal(await next(), false);
  });

  it('takes it for running while it cannot be asked, and says why once', async () => {
    controller.lead(true);
    await settled();
    api.before = ({ path }) => {
      if (path === DEPLOYMENT) throw new KubeError('forbidden', { status: 403, reason: 'Forbidden' });
    };
    assert.equal(await next(), false);
    await next();
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /forbidden/);
    api.before = () => {};
    assert.equal(await next(), true);
  });

  it('leaves no timer when it leads no more', async () => {
    controller.lead(true);
    await settled();
    assert.notDeepEqual(clock.waiting(), []);
    controller.lead(false);
    assert.deepEqual(clock.waiting(), []);
  });
});
