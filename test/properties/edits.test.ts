import assert from 'node:assert/strict';
import fc from 'fast-check';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render, renderer } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { ClusterObject } from '../../apis/objects.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/node-view.ts';
import { CROWD_KINDS } from '../generate/crowd.ts';
import { EDITS, type History, histories } from '../generate/edit.ts';
import { toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { count, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { toClusterObjects, toConfig, toState } from './pipeline.ts';
import { check, meet, missingOf } from './runs.ts';
import { violations } from './violation.ts';

describe('after any edits', function () {
  this.timeout(0);
  const seen: Seen = new Map();

  const judge = ({ from, steps }: History): void => {
    const config = toConfig(from.config);
    const known = new WeakMap<object, ClusterObject | null>();
    const [compile, view, rendered] = [compiler(), nodeViewer(from.node), renderer(config)];
    for (const { objects, edits } of steps) {
      const incremental = rendered(view(compile(toClusterObjects(objects, known))));
      const state = toState(objects, from.node);
      const fresh = render(state, config);
      assert.deepEqual(violations(incremental, state.rules), [], edits.join(', '));
      assertSameVerdicts(incremental, state, config);
      assert.equal(difference(incremental, fresh), null, edits.join(', '));
      for (const edit of edits) count(seen, edit);
    }
  };

  for (const kind of CROWD_KINDS)
    it(`rules of the kind ${kind} render as from scratch`, function () {
      check(this, 6, histories(kind), judge);
    });

  it('of every kind', function () {
    const anyKind = fc.constantFrom(...CROWD_KINDS).chain((kind) => histories(kind));
    meet(this, 42, anyKind, judge, missingOf(seen, EDITS));
  });
});

/** As every rule tried in order. */
function assertSameVerdicts(ruleset: Ruleset, state: NodeState, config: Config): void {
  const [indexed, linear] = [tracer(ruleset), tracer(render(state, { ...config, dispatch: 'linear' }))];
  for (const flow of flowsAtRules(state, 60, 1)) {
    const packet = toPacket(flow as Parameters<typeof toPacket>[0], state.nodeAddresses, config);
    if (packet === null) continue;
    const [ours, theirs] = [indexed(packet), linear(packet)];
    assert.equal(ours.verdict, theirs.verdict, JSON.stringify(flow));
    assert.deepEqual([ours.source, ours.counted], [theirs.source, theirs.counted], JSON.stringify(flow));
  }
}

/**
 * The first line in which the texts differ, or the first map or chain; null where the rulesets say
 * the same in the same order.
 */
function difference(a: Ruleset, b: Ruleset): string | null {
  const [ours = [], theirs = []] = [a, b].map((one) => rulesetText(one).split('\n'));
  const line = ours.findIndex((text, i) => text !== theirs[i]);
  if (line >= 0) return `${ours[line]}\n${theirs[line]}`;
  if (ours.length !== theirs.length) return `${ours.length} lines, ${theirs.length} lines`;
  for (const [name, { fixed, interval, keys }] of a.maps) {
    const other = b.maps.get(name);
    if (other?.fixed !== fixed || other.interval !== interval) return `map ${name}`;
    if (Buffer.compare(keys, other.keys) !== 0) return `keys of map ${name}`;
  }
  for (const [name, { source, fixed, ruleId }] of a.chains) {
    const other = b.chains.get(name);
    const same = other?.fixed === fixed && other.ruleId === ruleId;
    if (!same || JSON.stringify(other.source) !== JSON.stringify(source)) return `chain ${name}`;
  }
  return null;
}
