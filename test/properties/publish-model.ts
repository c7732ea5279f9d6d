import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { NodeState } from '../../apis/compiled.ts';
import { API_SERVER, CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import {
  type ClusterNetworkPolicy,
  type ClusterObjects,
  type EndpointSlice,
  NO_OBJECTS,
  type Node,
  type Pod,
  type Rule,
  type Service,
} from '../../apis/objects.ts';
import type { Endpoints, GateValue, RulesUpdate, StreamMessage } from '../../apis/stream.ts';
import { type NodeMessage, nodeMessage, toWrittenRule } from '../../apis/wire.ts';
import { formatMembers } from '../../lib/net/member-set.ts';

/**
 * What a watcher makes of its messages: a fold of its own, as simple as can be, that refuses what
 * may not come.
 */
export interface Folded {
  readonly gate: GateValue | null;
  readonly endpoints: readonly Endpoints[];
  readonly node: NodeMessage | null;
  readonly addressSets: ReadonlyMap<
    string,
    { readonly description: string; readonly members: ReadonlySet<string> }
  >;
  readonly serviceSets: ReadonlyMap<string, string>;
  readonly parts: ReadonlyMap<string, RulesUpdate['rules']>;
}

export const NOTHING: Folded = {
  gate: null,
  endpoints: [],
  node: null,
  addressSets: new Map(),
  serviceSets: new Map(),
  parts: new Map(),
};

export function fold(state: Folded, message: StreamMessage): Folded {
  const addressSets = new Map(state.addressSets);
  const serviceSets = new Map(state.serviceSets);
  const parts = new Map(state.parts);
  const held = (): Set<string> =>
    new Set(
      [...parts.values()]
        .flat()
        .flatMap(({ addressSets, serviceSets = [] }) => [...addressSets, ...serviceSets]),
    );
  switch (message.type) {
    case 'reset':
      return NOTHING;
    case 'gate':
      assert.notEqual(state.gate, message.enabled, 'a gate that is so already');
      return { ...state, gate: message.enabled };
    case 'endpoints':
      assert.notEqual(state.gate, null, 'the gate comes first');
      return { ...state, endpoints: message.endpoints };
    case 'node': {
      assert.notEqual(state.gate, null, 'the gate comes first');
      const { sequence: _, revision: __, ...node } = message;
      return { ...state, node };
    }
    case 'addressSet':
      addressSets.set(message.id, { description: message.description, members: new Set(message.members) });
      assert.equal(addressSets.get(message.id)?.members.size, message.members.length);
      return { ...state, addressSets };
    case 'addressSetPatch': {
      const set = addressSets.get(message.id);
      assert.ok(set, `a patch of ${message.id}, which is not held`);
      const members = new Set(set.members);
      assert.ok((message.add ?? message.remove ?? []).length > 0, 'an empty patch');
      for (const member of message.remove ?? []) assert.ok(members.delete(member), `${member} is not there`);
      for (const member of message.add ?? []) {
        assert.ok(!members.has(member), `${member} is there`);
        members.add(member);
      }
      addressSets.set(message.id, { ...set, members });
      return { ...state, addressSets };
    }
    case 'addressSetRemoved':
      assert.ok(addressSets.delete(message.id), `${message.id} is not held`);
      assert.ok(!held().has(message.id), `${message.id} is still named`);
      return { ...state, addressSets };
    case 'serviceSet':
      serviceSets.set(message.id, JSON.stringify([message.description, message.members]));
      return { ...state, serviceSets };
    case 'serviceSetRemoved':
      assert.ok(serviceSets.delete(message.id), `${message.id} is not held`);
      assert.ok(!held().has(message.id), `${message.id} is still named`);
      return { ...state, serviceSets };
    case 'rules':
      parts.set(message.part, message.rules);
      for (const id of held()) assert.ok(addressSets.has(id) || serviceSets.has(id), `${id} comes too late`);
      return { ...state, parts };
    case 'rulesRemoved':
      assert.ok(parts.delete(message.part), `${message.part} is not held`);
      return { ...state, parts };
    case 'egress':
    case 'egressMembers':
    case 'egressEntries':
    case 'egressMembersPatch':
    case 'egressPatch':
    case 'egressRemoved':
    case 'question':
    case 'probe':
      throw new Error('a message of egress gateways, which the watcher did not ask for');
    case 'bookmark':
      assert.deepEqual(
        [message.rules, message.addressSets, message.serviceSets],
        [[...parts.values()].flat().length, addressSets.size, serviceSets.size],
        'the numbers of the bookmark',
      );
      return state;
  }
}

/** A view as `Folded` has it; `parts` is what `folded` has, for there the rules are in parts. */
export function assertHolds(folded: Folded, { state, gate }: { state: NodeState; gate: GateValue }): void {
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
  assert.deepEqual(
    [...folded.parts.values()].flat().toSorted(byId),
    JSON.parse(JSON.stringify(state.rules.toSorted(byId).map(toWrittenRule))),
  );
  assert.deepEqual(
    new Map([...folded.addressSets].toSorted(byKey)),
    new Map(
      [...state.addressSets].map(([id, { description, members }]) => [
        id,
        { description, members: new Set(formatMembers(members)) },
      ]),
    ),
  );
  assert.deepEqual(
    new Map([...folded.serviceSets].toSorted(byKey)),
    new Map(
      [...state.serviceSets].map(([id, { description, members }]) => [
        id,
        JSON.stringify([description, members]),
      ]),
    ),
  );
  assert.equal(folded.gate, gate);
  assert.deepEqual(folded.node, nodeMessage(state));
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

/**
 * A small cluster in which everything is somebody's: labels a few, so that spans meet, nest and are
 * left.
 */
export interface Change {
  readonly what:
    | 'node'
    | 'node gone'
    | 'pod'
    | 'pod gone'
    | 'policy'
    | 'policy gone'
    | 'service'
    | 'api server';
  readonly which: number;
  readonly draw: readonly number[];
}

export const NODES = ['n0', 'n1', 'n2', 'n3', 'n4'];
const ROLES = ['a', 'b', 'c'];

export const CHANGE: fc.Arbitrary<Change> = fc.record({
  what: fc.constantFrom(
    'node',
    'node',
    'node gone',
    'pod',
    'pod',
    'pod gone',
    'policy',
    'policy',
    'policy gone',
    'service',
    'api server',
  ),
  which: fc.nat(5),
  draw: fc.array(fc.nat(1000), { minLength: 12, maxLength: 12 }),
});

export const NO_CLUSTER: ClusterObjects = {
  ...NO_OBJECTS,
  namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
};

export function changed(objects: ClusterObjects, { what, which, draw }: Change): ClusterObjects {
  const { nodes, pods, policies, services } = objects;
  switch (what) {
    case 'node':
      return { ...objects, nodes: including(nodes, node(which, draw)) };
    case 'node gone':
      return { ...objects, nodes: nodes.filter(({ name }) => name !== `n${which}`) };
    case 'pod':
      return { ...objects, pods: including(pods, pod(which, draw)) };
    case 'pod gone':
      return { ...objects, pods: pods.filter(({ name }) => name !== `p${which}`) };
    case 'policy':
      return { ...objects, policies: including(policies, policy(which % 4, draw)) };
    case 'policy gone':
      return { ...objects, policies: policies.filter(({ name }) => name !== `q${which % 4}`) };
    case 'service':
      return { ...objects, services: including(services, service(which % 2, draw)) };
    case 'api server':
      return { ...objects, endpointSlices: apiServer(draw) };
  }
}

function including<T extends { readonly name: string }>(list: readonly T[], item: T): T[] {
  return [...list.filter(({ name }) => name !== item.name), item].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function node(which: number, [role = 0, address = 0, more = 0]: readonly number[]): Node {
  const roles = ROLES.filter((_, i) => ((role >> i) & 1) === 1);
  const addresses = [`192.0.2.${which}`, ...(address % 3 === 0 ? [`2001:db8::${which}${more % 10}`] : [])];
  return {
    kind: 'Node',
    name: `n${which}`,
    labels: Object.fromEntries(roles.map((name) => [name, ''])),
    addresses,
  };
}

function pod(which: number, [app = 0, address = 0, v6 = 0]: readonly number[]): Pod {
  const addresses = [
    `10.0.${address % 2}.${which + (address % 3)}`,
    ...(v6 % 2 === 0 ? [`fd00::${which}`] : []),
  ];
  const labels = { app: ROLES[app % 3] ?? 'a' };
  // Now and then one of nodewall's own controllers.
  const { namespace, name: serviceAccount } =
    app % 4 === 0 ? CONTROLLER_ACCOUNT : { namespace: 'shop', name: 'default' };
  return { kind: 'Pod', namespace, name: `p${which}`, labels, serviceAccount, addresses };
}

/** None, or on one port or two. */
function apiServer([count = 0, port = 0]: readonly number[]): EndpointSlice[] {
  return Array.from({ length: count % 3 }, (_, i) => ({
    kind: 'EndpointSlice',
    ...API_SERVER,
    name: `kubernetes-${i}`,
    service: API_SERVER.name,
    addresses: ['192.0.2.1'],
    ports: [{ protocol: 'TCP', port: 6443 + ((port + i) % 3) }],
  }));
}

function service(which: number, [ip = 0, port = 0]: readonly number[]): Service {
  return {
    kind: 'Service',
    namespace: 'shop',
    name: `s${which}`,
    selector: null,
    clusterIPs: [`10.96.0.${ip % 3}`],
    ports: [{ protocol: 'TCP', port: 80 + (port % 3) }],
  };
}

function policy(which: number, draw: readonly number[]): ClusterNetworkPolicy {
  const [count = 0, ...more] = draw;
  const rules = Array.from({ length: 1 + (count % 3) }, (_, i) => rule(i, more.slice(3 * i)));
  const ingress = rules.filter(({ from }) => from !== undefined);
  const egress = rules.filter(({ from }) => from === undefined);
  return {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name: `q${which}`,
    uid: '',
    generation: count,
    spec: { priority: 1 + (count % 5), ingress, egress },
  };
}

function rule(index: number, [span = 0, peer = 0, which = 0]: readonly number[]): Rule {
  const selector = ROLES[span % 4];
  const appliedTo = [{ nodeSelector: selector === undefined ? {} : { matchLabels: { [selector]: '' } } }];
  const base = { name: `r${index}`, action: 'Drop', appliedTo } as const;
  const app = ROLES[which % 3] ?? 'a';
  switch (peer % 5) {
    case 0:
      return { ...base, from: [{ podSelector: { matchLabels: { app } } }] };
    case 1:
      // A block that covers some of the pods.
      return {
        ...base,
        from: [{ podSelector: { matchLabels: { app } } }, { ipBlock: { cidr: '10.0.0.0/30' } }],
      };
    case 2:
      return { ...base, from: [{ nodeSelector: which % 2 === 0 ? {} : { matchLabels: { [app]: '' } } }] };
    case 3:
      return { ...base, toServices: [{ namespace: 'shop', name: `s${which % 2}` }] };
    default:
      return { ...base, from: [] };
  }
}
