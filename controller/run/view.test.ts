import assert from 'node:assert/strict';
import { KubeConfig } from '@kubernetes/client-node';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { objects, REPORT } from '../../test/fake/server-bed.ts';
import type { Snapshot } from '../watch/source.ts';
import type { ControllerContext } from './controller-context.ts';
import { ControllerLead } from './lead.ts';
import { IDLE, type LifeEvent } from './lifecycle.ts';
import { ControllerServe } from './serve.ts';
import { ControllerBus, ControllerView } from './view.ts';

const EMPTY: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: true };

describe('the assemblies of a controller', () => {
  /** Made, and not started: nothing is connected to. */
  function make({ hasEgress = false } = {}) {
    const kubeConfig = new KubeConfig();
    const server = 'http://127.0.0.1:1';
    kubeConfig.loadFromClusterAndUser({ name: 'nowhere', server, skipTLSVerify: false }, { name: 'nobody' });
    const nothing = (): void => {};
    const context: ControllerContext = {
      options: { listen: '127.0.0.1:1', tokenAudiences: '', relistPeriod: 900, logLevel: 'info' },
      listen: { host: '127.0.0.1', port: 1 },
      webhook: null,
      peers: [],
      gate: null,
      egressGate: { given: null, configured: null },
      config: { ...DEFAULT_CONFIG, featureGates: { EgressGateway: hasEgress } },
      kubeConfig,
      log: { info: nothing, warn: nothing, error: nothing, debug: nothing } as unknown as Log,
    };
    const clock = Object.assign(fakeClock(), { date: () => new Date(0) });
    const process = { clock, random: () => 0.5, identity: 'a' };
    const bus = new ControllerBus();
    const life: LifeEvent['kind'][] = [];
    bus.on('life', ({ kind }) => void life.push(kind));
    const view = new ControllerView(context, process, bus);
    const lead = new ControllerLead(context, process, bus, view);
    const serve = new ControllerServe({ context, process, bus, view, lead, life: () => IDLE });
    const setGates = (policies: boolean | null, egress: boolean): void =>
      view.settings.setConfigMap({
        'config.yaml': JSON.stringify({
          featureGates: { ...present({ NodeNetworkPolicy: policies ?? undefined }), EgressGateway: egress },
        }),
      });
    return { bus, view, lead, serve, life, setGates };
  }

  const page = (view: ControllerView): Promise<string> => view.metrics.registry.metrics();

  it('tell each published state to the keepers of statuses, and to the life cycle after them', async () => {
    const { view, lead, bus, life, setGates } = make();
    view.settings.setAnnotations(null);
    setGates(true, false);
    life.length = 0;
    const seen: unknown[] = [];
    bus.on('life', () => void seen.push(lead.statuses.keeper.status('p')?.desiredNodesRealized));
    const identity = { apiGroup: 'nodewall.io', name: 'p', uid: '', generation: 1 } as const;
    lead.statuses.keeper.version(null, { ...identity, since: 0, status: null });
    await view.compiling.deliver({ ...EMPTY, objects: objects(1) });
    assert.deepEqual(life, ['published']);
    assert.deepEqual(seen, [1]);
  });

  it('have the last report of each node once, whoever sent it', async () => {
    const { view, serve, bus } = make();
    const heard: [string, string | undefined][] = [];
    bus.on('reported', (report, before) => void heard.push([report.node, before?.node]));
    view.reports.receive({ report: REPORT, age: 0 });
    view.reports.receive({ report: REPORT, age: 1_000 });
    view.reports.receive({ report: REPORT, age: 0 });
    assert.deepEqual(heard, [
      ['cp-1', undefined],
      ['cp-1', 'cp-1'],
    ]);
    serve.delivery.arrived(REPORT, 'agent');
    assert.match(await page(view), /^nodewall_controller_reports_total 1$/m);
  });

  it('follow the gates of the cluster, and begin again for that of egress gateways', () => {
    const { view, lead, life, setGates } = make();
    view.settings.setAnnotations(null);
    assert.equal(view.isGateKnown, false, 'the ConfigMap was not read');
    setGates(true, false);
    assert.equal(view.hub.gate, true);
    assert.equal(view.isGateKnown, true);
    assert.ok(
      life.every((type) => type === 'changed'),
      life.join(),
    );
    setGates(true, true);
    assert.equal(view.isGateKnown, false, 'this run is made without egress gateways');
    assert.deepEqual(life.slice(-2), ['restartRequested', 'changed']);
    assert.equal(lead.unsetGates.remark(), null);
  });

  it('count the nodes that go on while a gate has no value', () => {
    const { view, lead } = make();
    view.settings.setAnnotations(null);
    view.settings.setConfigMap(null);
    view.reports.receive({ report: REPORT, age: 0 });
    assert.equal(view.hub.gate, 'unset');
    assert.equal(lead.unsetGates.nodes('NodeNetworkPolicy'), 1);
    assert.match(lead.unsetGates.remark() ?? '', /has no value; 1 node goes on enforcing/);
  });

  it('show what all of them count on one page', async () => {
    for (const hasEgress of [false, true]) {
      const { view } = make({ hasEgress });
      const text = await page(view);
      for (const name of ['leader', 'streams', 'statuses_waiting', 'guardrails', 'watched_objects'])
        assert.match(text, new RegExp(`^nodewall_controller_${name}\\b`, 'm'));
      assert.equal(/^nodewall_controller_egress_leased_slots 0$/m.test(text), hasEgress);
    }
  });

  it('lead nothing, serve nothing and lack no right before they start', async () => {
    const { lead, serve } = make();
    assert.equal(lead.isLeader(), false);
    assert.equal(await serve.listen(), null);
    serve.useTls();
    assert.deepEqual(serve.missingRights(), []);
    assert.match(serve.delivery.missing() ?? '', /not here yet/);
  });
});
