import assert from 'node:assert/strict';
import { emptyNodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { type Applied, RefusedError } from '../apply/reconciler-interface.ts';
import { render } from '../render/render.ts';
import { EgressReconciler } from './egress-reconciler.ts';
import { NO_NETSTATE } from './render/netstate.ts';

const CHANGE: Applied = {
  change: { isEmpty: false, changesStructure: true, text: () => 'add rule' },
  leftBehind: null,
  enforcedAfter: 1,
  kernelMicroseconds: 1,
};

/** Calls in order; a Netstate is named by its first sysctl. */
function parts(marked: NodeEgress | null = null) {
  const calls: string[] = [];
  const refused = { rules: false, network: false };
  const kernel = { hasTunnel: false };
  const names = new Map<NodeEgress | null, Netstate>();
  const named = (name: string, links: Netstate['links'] = []): NodeEgress => {
    const egress = fakeNodeEgress();
    names.set(egress, { ...NO_NETSTATE, links, sysctls: [{ path: name, value: '' }] });
    return egress;
  };
  const reconciler = new EgressReconciler(
    {
      async apply() {
        calls.push('rules');
        if (refused.rules) throw new RefusedError('no', { source: null });
        return CHANGE;
      },
      verify: async () => [],
      holdsRules: async () => true,
    },
    {
      netstateOf: async (egress) => names.get(egress) ?? NO_NETSTATE,
      hasTunnel: async () => kernel.hasTunnel,
      async apply({ sysctls }, { removals }) {
        calls.push(`${removals ? 'all' : 'additions'} of ${sysctls[0]?.path ?? 'nothing'}`);
        if (refused.network) throw new Error('unreadable');
        return { operations: removals ? [] : ['ip rule add'] };
      },
      async leave(egress) {
        if (egress === null) calls.push('leave all');
      },
      async silence(egress) {
        calls.push(egress === null ? 'no silence' : 'silence');
      },
      verifySilence: async () => [],
      async forget({ marks }) {
        calls.push(`forget ${[...marks]}`);
      },
    },
    marked,
  );
  const apply = (egress: NodeEgress | null): Promise<Applied> => {
    const state = egress === null ? emptyNodeState('n') : { ...emptyNodeState('n'), egress };
    return reconciler.apply({ ...render(state, DEFAULT_CONFIG), egress });
  };
  return { calls, refused, kernel, named, apply };
}

describe('EgressReconciler', () => {
  it('makes before it breaks: additions, rules, removals', async () => {
    const { calls, named, apply } = parts();
    const { change } = await apply(named('a'));
    assert.deepEqual(calls, ['silence', 'additions of a', 'rules', 'all of a']);
    assert.equal(change.text(), 'add rule\nip rule add');
  });

  it('makes the first tunnel after the rules, which keep its packets', async () => {
    const links: Netstate['links'] = [{ kind: 'wireguard', name: 'nodewall-wg', group: 1, mtu: 1440 }];
    const { calls, named, apply } = parts();
    await apply(named('a', links));
    assert.deepEqual(calls.splice(0), ['silence', 'rules', 'all of a']);
    await apply(named('b', links));
    assert.deepEqual(calls.splice(0), ['silence', 'additions of b', 'rules', 'all of b']);
    const later = parts();
    later.kernel.hasTunnel = true;
    await later.apply(later.named('c', links));
    assert.deepEqual(later.calls, ['silence', 'additions of c', 'rules', 'all of c']);
  });

  it('leaves the network alone if nothing is different for it', async () => {
    const { calls, named, apply } = parts();
    const egress = named('a');
    await apply(egress);
    await apply(egress);
    assert.deepEqual(calls.slice(4), ['silence', 'rules']);
    await apply(null);
    const off = ['leave all', 'additions of nothing', 'rules', 'all of nothing', 'no silence'];
    assert.deepEqual(calls.slice(6), off);
  });

  it('ends connections by a number that means another gateway now, also after a restart', async () => {
    const by = (node: string): NodeEgress =>
      fakeNodeEgress({ slots: new Map([[2, { number: 2, node, take: 0 }]]) });
    const { calls, apply } = parts(by('a'));
    await apply(by('a'));
    await apply(by('b'));
    assert.deepEqual(
      calls.filter((call) => call.startsWith('forget')),
      [`forget ${0x02000000}`],
    );
  });

  it('makes the network of the rules in force again if the new ones are refused', async () => {
    const { calls, refused, named, apply } = parts();
    await apply(named('a'));
    refused.rules = true;
    await assert.rejects(apply(named('b')), RefusedError);
    assert.deepEqual(calls.slice(4), ['silence', 'additions of b', 'rules', 'additions of a']);
  });

  it('applies rules whatever becomes of the network: its guards drop what needs it', async () => {
    const { calls, refused, named, apply } = parts();
    refused.network = true;
    await apply(named('a'));
    assert.deepEqual(calls, ['silence', 'additions of a', 'rules', 'all of a']);
  });
});
