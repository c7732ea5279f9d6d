import assert from 'node:assert/strict';
import type { Command } from '../../agent/apply/plan/command.ts';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { render, renderer } from '../../agent/render/render.ts';
import {
  type Chain,
  type NamedSet,
  type NftRule,
  type Ruleset,
  targets,
} from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { ClusterObject } from '../../apis/objects.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/node-view.ts';
import { formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { formatFamily, hasMember, toMemberSet } from '../../lib/net/member-set.ts';
import { fakeKernel, listing } from '../fake/fake-kernel.ts';
import { realKernel } from '../fake/real-kernel.ts';
import { asRuleset } from '../fake/steps.ts';
import { CROWD_KINDS } from '../generate/crowd.ts';
import { type History, histories } from '../generate/edit.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { type Packet, toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { toClusterObjects, toConfig } from './pipeline.ts';
import { checkAsync } from './runs.ts';

/** Says what is wrong at a moment, right after these commands. */
type Watch = (commands: readonly Command[]) => readonly string[];

/** What an agent does with a history: one ruleset after the other, each made of the one before. */
function* states(
  { from, steps }: History,
  config: Config,
): Generator<{ state: NodeState; ruleset: Ruleset }> {
  const known = new WeakMap<object, ClusterObject | null>();
  const [compile, view, rendered] = [compiler(), nodeViewer(from.node), renderer(config)];
  for (const { objects } of steps) {
    const state = view(compile(toClusterObjects(objects, known)));
    yield { state, ruleset: rendered(state) };
  }
}

describe('while edits are applied in sequence', function () {
  this.timeout(0);

  for (const kind of CROWD_KINDS) {
    it(`a packet meets the rules before or those after: ${kind}`, async function () {
      await checkAsync(this, 5, histories(kind, [10, 40]), async (history) => {
        const config = toConfig(history.from.config);
        const kernel = fakeKernel();
        const reconciler = new NodeRuleReconciler(kernel);
        let before: { state: NodeState; ruleset: Ruleset } | null = null;
        const wrong: string[] = [];
        let watch: Watch = () => [];
        kernel.onCommit(() => wrong.push(...watch(kernel.calls.at(-1)?.commands ?? [])));
        for (const next of states(history, config)) {
          if (before !== null)
            watch = watcher(before.state, next.state, config, () => asRuleset(kernel.table()));
          await reconciler.apply(next.ruleset);
          watch = () => [];
          assert.deepEqual(wrong, []);
          kernel.tamper(() => undefined);
          assert.deepEqual(await reconciler.verify(), []);
          const fresh = fakeKernel();
          await new NodeRuleReconciler(fresh).apply(next.ruleset);
          assert.deepEqual(await listing(kernel), await listing(fresh));
          before = next;
        }
      });
    });
  }
});

kernelSuite('edits on the kernel in sequence', function () {
  this.timeout(0);

  for (const kind of CROWD_KINDS) {
    it(`reach the result of a fresh apply: ${kind}`, async function () {
      const [kernel, other] = await Promise.all([realKernel(), realKernel()]);
      try {
        await checkAsync(this, 2, histories(kind, [10, 60]), async (history) => {
          const reconciler = new NodeRuleReconciler(kernel);
          for (const { ruleset } of states(history, toConfig(history.from.config))) {
            await reconciler.apply(ruleset);
            await other.nft('add table inet nodewall\ndelete table inet nodewall\n');
            await new NodeRuleReconciler(other).apply(ruleset);
            assert.deepEqual(await listing(kernel), await listing(other));
          }
          // Somebody committed something: now it is read.
          await kernel.nft('add table inet stranger\ndelete table inet stranger\n');
          assert.deepEqual(await reconciler.verify(), []);
        });
      } finally {
        await Promise.all([kernel.close(), other.close()]);
      }
    });
  }
});

/**
 * A function to call at every moment of a change. Members are added first and removed last, so
 * every packet's verdict must be that of the old rules with the old or all members, or of the new
 * ones with all or the new members; every rule tried in order says which that is. Of who leaves a
 * set one part of the index may know that before another part does (ADR 9): still it is a verdict
 * that these rules give to who is in the set or to who isn't.
 */
function watcher(before: NodeState, after: NodeState, config: Config, now: () => Ruleset): Watch {
  const linear = (state: NodeState): Ruleset => render(state, { ...config, dispatch: 'linear' });
  const [old, wanted] = [linear(before), linear(after)];
  const allowed = [old, withMembers(old, wanted), withMembers(wanted, old), wanted].map(tracer);
  const known = new Map<string, boolean>();
  const isMoving = (text: string): boolean => {
    const moving = known.get(text) ?? moves(text, before, after);
    known.set(text, moving);
    return moving;
  };
  const flows = [before, after].flatMap((state, i) => [
    ...flowsAtRules(state, 30, i),
    ...flowsAtRules(state, 60, i, isMoving),
  ]);
  const packets = flows.flatMap((flow): Packet[] => {
    const packet = toPacket(flow as Parameters<typeof toPacket>[0], after.nodeAddresses, config);
    return packet === null ? [] : [packet];
  });
  const right = packets.map((packet) => allowed.map((trace) => trace(packet).verdict));
  const isLeaving = (packet: Packet, found: string): boolean =>
    isMoving(peerOf(packet)) &&
    [old, wanted].some((rules) =>
      verdictsWhileLeaving(packet, withMembers(rules, rules === old ? wanted : old), {
        ...rules,
        sets: new Map([...rules.sets].map(([name, set]) => [name, wanted.sets.get(name) ?? set])),
      }).has(found),
    );
  return (commands) => {
    const walk = tracer(now());
    // The index that is in force knows nothing of who has just come to a set: a rule that stands
    // outside of its maps may decide about them for this one moment, before one that stands in a
    // map.
    const isMembersAlone = commands.every((one) => one.kind === 'addElements' && one.targets === undefined);
    return packets.flatMap((packet, i) => {
      if (isMembersAlone && isMoving(peerOf(packet))) return [];
      const found = walk(packet).verdict;
      return right[i]?.includes(found) || isLeaving(packet, found)
        ? []
        : [`${found} for ${right[i]?.join(', ')} after ${commands[0]?.kind}: ${text(packet)}`];
    });
  };
}

/**
 * What the rules may say, each by itself taking the sender for one that is still in its set or for
 * one that has left it.
 */
function verdictsWhileLeaving(packet: Packet, inside: Ruleset, outside: Ruleset): Set<string> {
  const found = new Set<string>();
  for (const { name, source } of inside.chains.values()) {
    if (source === null) continue;
    const traces = [inside, outside].map((ruleset) => tracer(withOneRule(ruleset, name))(packet));
    for (const { verdict, source: by } of traces) if (by !== null) found.add(verdict);
    if (traces.every(({ source: by }) => by !== null)) return found;
  }
  return found.add(tracer(withOneRule(outside, ''))(packet).verdict);
}

/** Without the other policy rules; every rule is tried in order. */
function withOneRule({ chains, ...others }: Ruleset, wanted: string): Ruleset {
  const isOther = ({ statement }: NftRule): boolean =>
    targets(statement).some((name) => name !== wanted && (chains.get(name)?.source ?? null) !== null);
  const kept = [...chains].map(([name, chain]): [string, Chain] => [
    name,
    { ...chain, rules: chain.rules.filter((rule) => !isOther(rule)) },
  ]);
  return { ...others, chains: new Map(kept) };
}

/** Whether it comes to a set or leaves one. */
function moves(text: string, before: NodeState, after: NodeState): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  return [...after.addressSets.values()].some(({ id, members }) => {
    const old = before.addressSets.get(id)?.members;
    if (old === undefined || old === members) return false;
    return hasMember(old, address) !== hasMember(members, address);
  });
}

/** The sets also with what they have in the other ruleset. */
function withMembers(ruleset: Ruleset, { sets: others }: Ruleset): Ruleset {
  const sets = [...ruleset.sets].map(([name, set]): [string, NamedSet] => {
    const other = others.get(name);
    return [name, other === undefined ? set : union(set, other)];
  });
  return { ...ruleset, sets: new Map(sets) };
}

function union(a: NamedSet, b: NamedSet): NamedSet {
  if (a.key === 'service') return { ...a, members: { ...a.members, singles: unionOfKeys(a, b) } };
  const texts = [a, b].flatMap(({ members }) => formatFamily({ family: a.family, ...members }));
  const blocks = texts.flatMap((one) => {
    const cidr = one.includes('/') ? parseCidr(one)?.cidr : undefined;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  const addresses = texts.filter((one) => !one.includes('/'));
  const { v4, v6 } = toMemberSet(blocks, addresses);
  return { ...a, interval: a.interval || b.interval, members: a.family === 4 ? v4 : v6 };
}

function unionOfKeys(a: NamedSet, b: NamedSet): Uint8Array {
  const width = a.family === 4 ? 12 : 24;
  const keys = [a, b].flatMap(({ members: { singles } }) =>
    Array.from({ length: singles.length / width }, (_, i) =>
      Buffer.from(singles).toString('hex', i * width, (i + 1) * width),
    ),
  );
  return Buffer.from([...new Set(keys)].sort().join(''), 'hex');
}

function peerOf({ direction, family, src, dst }: Packet): string {
  return formatAddress({ family, value: direction === 'ingress' ? src : dst });
}

function text(packet: Packet): string {
  return JSON.stringify(packet, (_, value: unknown) =>
    typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
  );
}
