import assert from 'node:assert/strict';
import {
  type ClusterGroup,
  type ClusterObjects,
  NO_OBJECTS,
  type Node,
  type Pod,
  type Rule,
} from '../../apis/objects.ts';
import { EVERY_PLACE, type RolloutShare } from '../../apis/rollout.ts';
import type { StreamMessage } from '../../apis/stream.ts';
import { compile, compiler } from '../compile/compile.ts';
import { Hub, usualSwitchOff } from './hub.ts';
import { type Line, linePrefix } from './messages.ts';
import { LOG_LIMITS } from './resume-log.ts';

const at = (role: string) => [{ nodeSelector: { matchLabels: { role } } }];

function node(name: string, role: string): Node {
  return { kind: 'Node', name, labels: { role }, addresses: [`192.0.2.${name.length}`] };
}

function pod(name: string, address: string): Pod {
  return {
    kind: 'Pod',
    namespace: 'shop',
    name,
    labels: { app: 'web' },
    serviceAccount: 'default',
    addresses: [address, `fd00:10:200::${name}`],
  };
}

function policy(name: string, ...ingress: Rule[]): ClusterObjects['policies'][number] {
  const spec = { priority: 5, ingress };
  return { kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name, uid: '', generation: 1, spec };
}

const fromWeb: Rule = {
  name: 'web',
  action: 'Drop',
  appliedTo: at('worker'),
  from: [{ podSelector: { matchLabels: { app: 'web' } } }],
};

const objects: ClusterObjects = {
  ...NO_OBJECTS,
  nodes: [node('a', 'worker'), node('bb', 'worker'), node('ccc', 'other')],
  namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
  pods: Array.from({ length: 20 }, (_, i) => pod(`${i}`, `10.200.100.${i}`)),
  policies: [policy('p', fromWeb)],
};

/** The messages of one watcher, by batch, and their size on the wire (bytes). */
function watched(hub: Hub, name: string, from: string | null = null) {
  const batches: StreamMessage[][] = [];
  const lines: Line[] = [];
  let sequence = 0;
  let bytes = 0;
  const watch = hub.watch(name, from, (batch) => {
    lines.push(...batch);
    const texts = batch.map((line) => linePrefix(++sequence, line) + line.body.toString());
    bytes += texts.join('').length;
    batches.push(texts.map((text) => JSON.parse(text) as StreamMessage));
  });
  const take = (): StreamMessage[][] => {
    bytes = 0;
    return batches.splice(0);
  };
  return { watch, lines, take, bytes: () => bytes };
}

const types = (batches: StreamMessage[][]) => batches.map((batch) => batch.map(({ type }) => type));

describe('hub', () => {
  it('sends a whole view: reset, gate, node, sets, rules, bookmark', () => {
    const hub = new Hub({ gate: true, epoch: 'e' });
    hub.publish(compile(objects));
    const [view = []] = watched(hub, 'a').take();
    assert.deepEqual(types([view]), [
      ['reset', 'gate', 'node', 'addressSet', 'addressSet', 'addressSet', 'rules', 'bookmark'],
    ]);
    assert.deepEqual(view.at(-1), {
      sequence: 8,
      revision: hub.revision,
      type: 'bookmark',
      initial: true,
      rules: 1,
      addressSets: 3,
      serviceSets: 0,
    });
    assert.deepEqual(types(watched(hub, 'ccc').take()), [
      ['reset', 'gate', 'node', 'addressSet', 'addressSet', 'bookmark'],
    ]);
  });

  it('throws for a watch before the first state is published', () => {
    const hub = new Hub({ gate: true });
    assert.equal(hub.ready, false);
    assert.throws(() => watched(hub, 'a'), /no state has been published/);
  });

  it('sends a changed pod in 400 bytes, serialised once, to the nodes whose rules name it', () => {
    const hub = new Hub({ gate: true });
    const next = compiler();
    hub.publish(next(objects));
    const [a, bb, other] = ['a', 'bb', 'ccc'].map((name) => watched(hub, name));
    assert.ok(a && bb && other);
    for (const one of [a, bb, other]) one.take();
    const pods = objects.pods.with(7, pod('7777', '10.200.177.177'));
    assert.equal(hub.publish(next({ ...objects, pods })), 1);
    assert.ok(a.bytes() > 0 && a.bytes() <= 400, `${a.bytes()} bytes`);
    const [batch = []] = a.take();
    const [patch] = batch;
    assert.ok(patch?.type === 'addressSetPatch');
    assert.deepEqual(patch.add, ['10.200.177.177', 'fd00:10:200::7777']);
    assert.deepEqual(patch.remove, ['10.200.100.7', 'fd00:10:200::7']);
    assert.equal(batch[1]?.type, 'bookmark');
    const [ours, theirs] = [a.lines.at(-2)?.body, bb.lines.at(-2)?.body];
    assert.ok(ours !== undefined && ours === theirs, 'one buffer for both');
    assert.deepEqual(other.take(), []);
  });

  it('sends gained and lost rules only to the relabelled node', () => {
    const hub = new Hub({ gate: true });
    const next = compiler();
    hub.publish(next(objects));
    const [a, other] = ['a', 'ccc'].map((name) => watched(hub, name));
    a?.take();
    other?.take();
    hub.publish(next({ ...objects, nodes: objects.nodes.with(2, node('ccc', 'worker')) }));
    assert.deepEqual(types(other?.take() ?? []), [['addressSet', 'rules', 'bookmark']]);
    hub.publish(next(objects));
    assert.deepEqual(types(other?.take() ?? []), [['rulesRemoved', 'addressSetRemoved', 'bookmark']]);
    assert.deepEqual(a?.take(), []);
  });

  it('sends nothing if nothing changed for any node', () => {
    const hub = new Hub({ gate: true });
    const next = compiler();
    hub.publish(next(objects));
    const a = watched(hub, 'a');
    a.take();
    assert.equal(hub.publish(next({ ...objects, nodes: objects.nodes.toReversed() })), 0);
    assert.deepEqual(a.take(), []);
  });

  it('gives a new watcher the rules after they moved to an equal list of nodes, which no message says', () => {
    const group = (values: string[]): ClusterGroup => {
      const nodeSelector = { matchExpressions: [{ key: 'role', operator: 'In' as const, values }] };
      return { kind: 'ClusterGroup', apiGroup: 'nodewall.io', name: 'g', spec: { nodeSelector } };
    };
    const of = (values: string[]): ClusterObjects => {
      const rule = { ...fromWeb, appliedTo: [{ group: 'g' }] };
      return { ...objects, groups: [group(values)], policies: [policy('p', rule)] };
    };
    const shared = (nodes?: RolloutShare): ClusterObjects => {
      const those = nodes && { nodes: { ...nodes, salt: '', areTaking: true } };
      return {
        ...objects,
        policies: [{ ...policy('p', fromWeb), share: { version: '1', since: 0, ...those } }],
      };
    };
    const cases = [
      ['another selector', of(['worker']), of(['worker', 'none'])],
      ['the end of a rollout', shared({ through: EVERY_PLACE, firsts: [] }), shared()],
    ] as const;
    for (const [what, before, after] of cases) {
      const hub = new Hub({ gate: true });
      const next = compiler();
      hub.publish(next(before));
      assert.equal(hub.publish(next(after)), 0, what);
      assert.ok(types(watched(hub, 'bb').take()).flat().includes('rules'), what);
      assert.equal(hub.counts('bb').rules, 1, what);
    }
  });

  it('resumes a watcher at its position, and restarts it for another epoch or an unknown position', () => {
    const hub = new Hub({ gate: true, epoch: 'e' });
    const next = compiler();
    hub.publish(next(objects));
    const was = hub.revision;
    hub.publish(next({ ...objects, pods: objects.pods.slice(1) }));
    assert.deepEqual(types(watched(hub, 'a', was).take()), [['addressSetPatch', 'bookmark']]);
    assert.deepEqual(types(watched(hub, 'ccc', was).take()), [['bookmark']]);
    for (const unknown of ['f.1', 'e.99', 'e', '7', 'e.1x', 'e.0']) {
      assert.equal(watched(hub, 'a', unknown).take()[0]?.[0]?.type, 'reset', unknown);
    }
  });

  it('knows whether a watcher of another hub has newer objects, of any resource', () => {
    const watches = [
      { newest: 40, reached: 45 },
      { newest: 7, reached: 50 },
    ];
    const hub = new Hub({ gate: true, epoch: 'e', watches: () => watches });
    hub.publish(compile(objects));
    assert.equal(hub.revision, 'e.1.14-7');
    const [view = []] = watched(hub, 'a').take();
    assert.deepEqual([...new Set(view.map(({ revision }) => revision))], ['e.1', 'e.1.14-7']);
    const behind = ['f.1.1a-1', 'f.1.0-1f'];
    const notBehind = ['f.1.19-1e', 'e.1.1a-1', 'f.1', 'f.1.zzz', 'f.1.z-z-z', ''];
    for (const revision of behind) assert.ok(hub.isBehind(revision), revision);
    for (const revision of notBehind) assert.ok(!hub.isBehind(revision), revision);
  });

  it('keeps the log for other nodes when one node gets many messages', () => {
    const hub = new Hub({ gate: true, epoch: 'e', log: { ...LOG_LIMITS, messages: 100, names: 1000 } });
    const next = compiler();
    const policies = [...objects.policies];
    for (let i = 0; i < 600; i++)
      policies.push(policy(`q${i}`, { ...fromWeb, name: `r${i}`, appliedTo: at('new') }));
    const many = { ...objects, policies };
    hub.publish(next(many));
    const was = hub.revision;
    const crowded = { ...many, nodes: objects.nodes.with(2, node('ccc', 'new')) };
    hub.publish(next(crowded));
    hub.publish(next({ ...crowded, pods: objects.pods.slice(1) }));
    assert.deepEqual(types(watched(hub, 'a', was).take()), [['addressSetPatch', 'bookmark']]);
    assert.equal(watched(hub, 'ccc', was).take()[0]?.[0]?.type, 'reset');
  });

  it('sends the gate to all nodes, once', () => {
    const hub = new Hub({ gate: false });
    hub.publish(compile(objects));
    const other = watched(hub, 'ccc');
    other.take();
    hub.setGate(true);
    hub.setGate(true);
    assert.deepEqual(types(other.take()), [['gate', 'bookmark']]);
  });

  it('says over which time nodes follow a gate that is off, also to later watchers', () => {
    const hub = new Hub({ gate: true });
    hub.publish(compile(objects));
    const other = watched(hub, 'ccc');
    other.take();
    const gates = (lines: ReturnType<typeof other.take>) =>
      lines.flatMap((batch) =>
        batch.flatMap((message) => (message.type === 'gate' ? [[message.enabled, message.over ?? 0]] : [])),
      );
    hub.setGate(false, 60);
    hub.setGate(false, 60);
    assert.deepEqual(gates(other.take()), [[false, 60]]);
    assert.deepEqual(gates(watched(hub, 'ccc').take()), [[false, 60]]);
    hub.setGate(false, 0);
    assert.deepEqual(gates(other.take()), [[false, 0]]);
    hub.setGate(true, null);
    assert.deepEqual(gates(other.take()), [[true, 0]]);
    hub.setGate(false, null);
    const over = usualSwitchOff(hub.nodes().size);
    assert.ok(over > 0);
    assert.deepEqual(gates(other.take()), [[false, over]]);
  });

  it('sends a gate without a value as such, and that there are no egress gateways once their gate is off', () => {
    const hub = new Hub({ gate: 'unset' });
    hub.setEgressUnset(true);
    hub.publish(compile(objects));
    const batches: string[][] = [];
    const take = (lines: readonly Line[]): void => void batches.push(lines.map(({ body }) => `${body}`));
    hub.watch('ccc', null, take, { egress: true });
    assert.match(batches[0]?.[1] ?? '', /"type":"gate","enabled":"unset"/);
    assert.doesNotMatch(`${batches}`, /egressRemoved/);
    batches.splice(0);
    hub.setEgressUnset(false);
    assert.match(`${batches}`, /egressRemoved/);
    hub.setGate(false);
    assert.match(`${batches.at(-1)}`, /"enabled":false/);
  });

  it("sends the control plane's endpoints to all nodes once, and to later watchers after the gate", () => {
    const hub = new Hub({ gate: false });
    hub.setEndpoints([]);
    hub.publish(compile(objects));
    const other = watched(hub, 'ccc');
    other.take();
    const endpoints = [{ port: 6443, addresses: ['192.0.2.11'] }];
    hub.setEndpoints(endpoints);
    hub.setEndpoints(structuredClone(endpoints));
    const [[told, ...rest] = []] = other.take();
    assert.deepEqual(told?.type === 'endpoints' ? told.endpoints : null, endpoints);
    assert.deepEqual(types([rest]), [['bookmark']]);
    const [view = []] = watched(hub, 'ccc').take();
    assert.deepEqual(
      view.slice(0, 3).map(({ type }) => type),
      ['reset', 'gate', 'endpoints'],
    );
    hub.setEndpoints([]);
    assert.deepEqual(types(other.take()), [['endpoints', 'bookmark']]);
    // Agents of version 0.1 take all of `endpoints` as ports of TCP.
    const dns = { protocol: 'udp', port: 5353, addresses: ['10.1.0.2'] } as const;
    hub.setEndpoints([...endpoints, dns]);
    const apart = { type: 'endpoints', endpoints, udpEndpoints: [dns] };
    for (const [message] of [other.take()[0] ?? [], watched(hub, 'ccc').take()[0]?.slice(2) ?? []]) {
      const { sequence: _, revision: __, ...update } = message ?? assert.fail();
      assert.deepEqual(update, apart);
    }
  });

  it('sends a whole view to all watchers after a failed publish', () => {
    const hub = new Hub({ gate: true });
    const compiled = compile(objects);
    hub.publish(compiled);
    const was = hub.revision;
    const a = watched(hub, 'a');
    a.take();
    const broken = {
      ...compile({ ...objects, policies: [policy('p', { ...fromWeb, name: 'x' })] }),
      addressSets: new Map(),
    };
    assert.throws(() => hub.publish(broken), /unknown set/);
    assert.equal(hub.ready, false);
    assert.deepEqual(a.take(), []);
    hub.publish(compiled);
    assert.equal(a.take()[0]?.[0]?.type, 'reset');
    assert.equal(watched(hub, 'a', was).take()[0]?.[0]?.type, 'reset');
  });

  it('forgets closed watches', () => {
    const hub = new Hub({ gate: true });
    hub.publish(compile(objects));
    const a = watched(hub, 'a');
    const again = watched(hub, 'a');
    assert.equal(hub.watchers, 2);
    a.watch.close();
    a.watch.close();
    a.take();
    again.take();
    hub.publish(compile({ ...objects, pods: [] }));
    assert.equal(hub.watchers, 1);
    assert.deepEqual(a.take(), []);
    assert.equal(again.take().length, 1);
  });
});
