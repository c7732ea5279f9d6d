import assert from 'node:assert/strict';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { inEvaluationOrder } from '../../apis/order.ts';
import { type Message, snapshot } from '../../apis/wire.ts';
import { formatMembers, toMemberSet } from '../../lib/net/member-set.ts';
import { closing, fromPods, ingress, nodeState, pod } from '../../test/fake/node-state.ts';
import { scenario } from '../../test/generate/scenario.ts';
import { cidr, policy, tcp } from '../../test/kernel/manifests.ts';
import { toState } from '../../test/properties/pipeline.ts';
import { check } from '../../test/properties/runs.ts';
import { receive } from './receive.ts';

const WEB = { name: 'web', namespace: 'shop' };
const OUT: object = {
  mode: 'Audit',
  egress: [
    { name: 's', action: 'Drop', toServices: [WEB] },
    { name: 'n', action: 'Drop', to: [{ fqdn: 'www.example.com' }, { interfaceGroup: 'pods' }] },
  ],
};
const STATE = nodeState(
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: WEB,
    spec: { clusterIPs: ['10.96.0.10', 'fd00:96::a'], ports: [{ port: 443 }] },
  },
  policy('services', OUT),
  closing('ssh', 22),
  ingress('pods', { name: 'in', action: 'Allow', from: [fromPods('a')], ports: [tcp(5432)] }),
  policy('out', { egress: [{ name: 'r', action: 'Reject', to: [cidr('10.0.0.0/8'), cidr('fd00::/8')] }] }),
  pod('a', '10.1.0.1', 'fd00::1'),
);
const MESSAGES = [...snapshot(STATE)];

/** Sends messages through JSON, as a file or a connection does. */
function overTheWire(messages: readonly Message[]): Message[] {
  return messages.map((message) => JSON.parse(JSON.stringify(message)) as Message);
}

function comparable(state: NodeState) {
  return {
    ...state,
    addressSets: [...state.addressSets].map(([id, set]) => [
      id,
      { ...set, members: formatMembers(set.members) },
    ]),
  };
}

describe('receive', function () {
  this.timeout(60_000);

  it('returns the state that a snapshot was made of', () => {
    assert.deepEqual(receive(overTheWire(MESSAGES)), STATE);
  });

  it('keeps the fields of sets that a newer version wrote, also through a state file', () => {
    const newer = overTheWire(MESSAGES).map((message) =>
      message.type === 'addressSet' || message.type === 'serviceSet'
        ? { ...message, except: ['x'] }
        : message,
    );
    const state = receive(newer);
    for (const set of [...state.addressSets.values(), ...state.serviceSets.values()])
      assert.deepEqual(set.unknown, { except: ['x'] });
    assert.deepEqual(overTheWire([...snapshot(state)]), newer);
    assert.deepEqual(receive([...snapshot(state)]), state);
  });

  it('takes members of a service set that it does not know for unknown', () => {
    for (const odd of [{ protocol: 'dccp' }, { lastPort: 90 }]) {
      const newer = overTheWire(MESSAGES).map((message) =>
        message.type === 'serviceSet'
          ? { ...message, members: message.members.map((one) => ({ ...one, ...odd }) as typeof one) }
          : message,
      );
      const [set] = receive(newer).serviceSets.values();
      assert.deepEqual(set?.unknown, { members: set?.members });
    }
  });

  it('returns any state', function () {
    check(this, 40, scenario({ size: 8, flows: 0 }), ({ objects, node }) => {
      // An annotation's platform is not sent: an agent asks its kernel.
      const { platform: _, ...state } = toState(objects, node);
      assert.deepEqual(comparable(receive(overTheWire([...snapshot(state)]))), comparable(state));
    });
  });

  it('sorts rules by their order', () => {
    const rules = MESSAGES.filter(({ type }) => type === 'rule');
    const others = MESSAGES.filter(({ type }) => type !== 'rule');
    const [last] = others.splice(-1);
    assert.ok(rules.length > 2 && last !== undefined);
    assert.deepEqual(receive([...others, ...rules.reverse(), last]), STATE);
  });

  it('rejects a snapshot that ends early', () => {
    for (let length = 0; length < MESSAGES.length; length++) {
      assert.throws(() => receive(MESSAGES.slice(0, length)), /not complete/, `${length} messages`);
    }
  });

  it('rejects a snapshot that lacks any message', () => {
    for (let i = 0; i < MESSAGES.length; i++) {
      assert.throws(() => receive(MESSAGES.toSpliced(i, 1)), Error, `without message ${i}`);
    }
  });

  it('rejects messages after the bookmark', () => {
    const rule = MESSAGES.find(({ type }) => type === 'rule');
    assert.ok(rule !== undefined);
    assert.throws(() => receive([...MESSAGES, rule]), /not complete/);
  });

  it('rejects a rule or a node that refers to a missing set', () => {
    const renamed = (id: string) =>
      MESSAGES.map((message) =>
        message.type === 'addressSet' && message.id === id ? { ...message, id: 'x' } : message,
      );
    for (const id of STATE.addressSets.keys()) {
      assert.throws(
        () => receive(renamed(id)),
        new RegExp(`refers to AddressSet ${id} but does not contain it`),
      );
    }
  });

  it('rejects a rule that refers to a missing ServiceSet', () => {
    const renamed = MESSAGES.map((message) =>
      message.type === 'serviceSet' ? { ...message, id: 'x' } : message,
    );
    const [id] = STATE.serviceSets.keys();
    assert.throws(() => receive(renamed), new RegExp(`refers to ServiceSet ${id} but does not contain it`));
  });

  it('reads snapshots of version 0.1', () => {
    const old = nodeState(
      closing('ssh', 22),
      pod('a', '10.1.0.1'),
      ingress('p', { name: 'in', action: 'Drop' }),
    );
    const addressSets = new Map(old.addressSets);
    addressSets.delete(old.controllers);
    const messages = overTheWire([...snapshot(old)]).filter(
      (message) => message.type !== 'addressSet' || message.id !== old.controllers,
    );
    const written = messages.map((message) => {
      if (message.type === 'node') {
        const { controllers: _, ...node } = message;
        return node;
      }
      if (message.type === 'bookmark') return { ...message, addressSets: message.addressSets - 1 };
      if (message.type !== 'rule') return message;
      const { interfaceGroups: _, serviceSets: __, log: ___, ...rule } = message.rule;
      return { type: 'rule', rule };
    });
    assert.doesNotMatch(JSON.stringify(written), /names|serviceSet|interfaceGroup|log/);
    assert.deepEqual(receive(written as Message[]), { ...old, addressSets, controllers: '' });
  });

  it('rejects invalid members', () => {
    const broken = MESSAGES.map((message) =>
      message.type === 'addressSet' ? { ...message, members: ['10.0.0.256'] } : message,
    );
    assert.throws(() => receive(broken), /10\.0\.0\.256/);
    const blocks = MESSAGES.map((message) =>
      message.type === 'addressSet' ? { ...message, members: ['10.0.0.0/33'] } : message,
    );
    assert.throws(() => receive(blocks), /10\.0\.0\.0\/33/);
    const services = MESSAGES.map((message) =>
      message.type === 'serviceSet'
        ? { ...message, members: [{ address: '10.96.0', protocol: 'tcp', port: 1 } as const] }
        : message,
    );
    assert.throws(() => receive(services), /invalid address 10\.96\.0/);
  });

  it('accepts prefixes of a single address, and empty families', () => {
    const set: AddressSet = {
      id: 'set',
      description: 'x',
      dynamic: true,
      names: [],
      members: toMemberSet([], ['10.0.0.1', '::1', '255.255.255.255']),
    };
    const rules: readonly CompiledRule[] = inEvaluationOrder([]);
    const state: NodeState = {
      node: 'n',
      rules,
      addressSets: new Map([['set', set]]),
      serviceSets: new Map(),
      allNodes: 'set',
      controllers: '',
      apiServerPorts: [],
      nodeAddresses: [],
    };
    assert.deepEqual(receive(overTheWire([...snapshot(state)])), state);
  });
});
