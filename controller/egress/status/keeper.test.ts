import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../../apis/egress/config.ts';
import type { NodeReport } from '../../../apis/node-report.ts';
import {
  egressInput,
  fakeGateway,
  fakeNode,
  fakePod,
  fakePolicy,
} from '../../../test/fake/egress-objects.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import type { StatusWriter } from '../../status/writer.ts';
import type { LoadProblem } from '../../watch/source.ts';
import { egressCompiler } from '../compile-egress.ts';
import { LeaseGranter } from '../lease/lease-table.ts';
import { AddressOwners } from '../owners/address-owners.ts';
import type { EgressStatus } from './egress-status.ts';
import { EgressStatusKeeper } from './keeper.ts';

const REPORT = { enabled: true, features: ['egress'], enforced: null } as const;
const GATEWAY = { ...fakeGateway('g', { source: 'Node' }), uid: 'g', generation: 1 };
const POLICY = { ...fakePolicy('shop/p', { gateway: 'g' }), uid: 'p', generation: 1 };
const OBJECTS = {
  nodes: [fakeNode('a', ['192.0.2.1'])],
  namespaces: [{ kind: 'Namespace' as const, name: 'shop', labels: {} }],
  pods: [fakePod('shop/one', ['10.0.0.1'], { node: 'a' })],
  egressGateways: [GATEWAY],
  egressPolicies: [POLICY],
};

/** The keeper with the owners that it makes statuses of, and an API that has each write at once. */
function bed() {
  const clock = { ...fakeClock(), date: () => new Date(0) };
  const written: string[] = [];
  const writer: StatusWriter<EgressStatus> = {
    submit(path, uid, status) {
      written.push(`${path}: ${status.conditions.map(({ type, reason }) => `${type} ${reason}`).join(', ')}`);
      version(path, uid, status);
    },
    forget: (path) => void written.push(`${path} is deleted`),
    has: () => false,
    clear: async () => {},
    waiting: () => 0,
  };
  const owners: AddressOwners = new AddressOwners({
    clock,
    granter: new LeaseGranter({ clock, isLeader: () => true, answered: () => {} }),
    heartbeatClock: clock,
    decided: (decisions) => keeper.decided(decisions),
    moved: () => {},
  });
  const keeper = new EgressStatusKeeper({ writer, gatewayWriter: writer, clock, owners });
  const compiled = egressCompiler(DEFAULT_EGRESS_CONFIG)(egressInput(OBJECTS));
  const version = (path: string, uid: string, status: EgressStatus | null): void => {
    const [kind = '', ...name] = path.split('/');
    keeper.version(null, { kind, name: name.join('/'), path, uid, generation: 1, since: 0, status });
  };
  version('EgressGateway/g', 'g', null);
  version('EgressPolicy/shop/p', 'p', null);
  return {
    keeper,
    publish(problems: readonly LoadProblem[] = []): void {
      owners.publish(compiled);
      keeper.publish({ compiled, nodes: new Map(), policies: [POLICY], problems });
    },
    report(more: Partial<NodeReport> = {}): void {
      if (owners.report({ ...REPORT, node: 'a', ...more } as NodeReport)) keeper.reported();
    },
    async lead(leads: boolean): Promise<void> {
      owners.lead(leads);
      await keeper.lead(leads);
    },
    /** The statuses written since the last call. */
    pass(milliseconds: number): string[] {
      clock.pass(milliseconds);
      return written.splice(0);
    },
  };
}

const GATEWAY_READY = 'EgressGateway/g: Accepted Valid, Ready NodesReady';

describe('EgressStatusKeeper', () => {
  it('writes gateways at once, policies gathered, each once, and nothing unless it leads', async () => {
    const { publish, report, lead, pass } = bed();
    publish();
    report();
    assert.deepEqual(pass(10_000), []);
    await lead(true);
    assert.deepEqual(pass(0), [GATEWAY_READY]);
    assert.deepEqual(pass(500), [
      'EgressPolicy/shop/p: Accepted Valid, AddressAllocated Allocated, Realized Realizing, Ready Realizing, Reconciling Realizing',
    ]);
    assert.deepEqual(pass(20_000), []);
    await lead(false);
    report({ off: '' });
    assert.deepEqual(pass(20_000), []);
  });

  it('says what agents report, and what is wrong with an object', async () => {
    const { publish, report, lead, pass } = bed();
    publish();
    report();
    await lead(true);
    pass(0);
    pass(500);
    report({ off: '' });
    assert.deepEqual(pass(500), [
      'EgressGateway/g: Accepted Valid, Ready NoReadyNode, Reconciling NoReadyNode',
      'EgressPolicy/shop/p: Accepted Valid, AddressAllocated NoReadyNode, Realized Realizing, Ready NoReadyNode, Reconciling NoReadyNode',
    ]);
    const problem = {
      severity: 'error',
      kind: 'EgressGateway',
      name: 'g',
      path: 'spec',
      message: 'is wrong',
    };
    publish([{ ...problem, file: '', line: 0 } as LoadProblem]);
    assert.deepEqual(pass(0), ['EgressGateway/g: Accepted Invalid, Ready NoReadyNode, Stalled Invalid']);
  });

  it('replaces what somebody else wrote, and forgets what is deleted', async () => {
    const { keeper, publish, report, lead, pass } = bed();
    publish();
    report();
    await lead(true);
    pass(0);
    pass(500);
    const version = { kind: 'EgressGateway', name: 'g', path: 'EgressGateway/g', uid: 'g', since: 0 };
    keeper.version(null, { ...version, generation: 1, status: null });
    assert.deepEqual(pass(0), [GATEWAY_READY]);
    keeper.version({ ...version, generation: 1, status: null }, null);
    assert.deepEqual(pass(10_000), ['EgressGateway/g is deleted']);
  });
});
