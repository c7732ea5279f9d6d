import assert from 'node:assert/strict';
import fc from 'fast-check';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config, DispatchMode } from '../../apis/config.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { CROWD_KINDS } from '../generate/crowd.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { ofNodePort } from '../generate/service.ts';
import { type IptablesTrace, iptablesTracer } from '../tracer/iptables.ts';
import type { Packet } from '../tracer/packet.ts';
import { agree, type Seen } from './agree.ts';
import { check, flowCount } from './runs.ts';

describe('iptables', function () {
  this.timeout(0);

  it('decides, counts and records what nftables does, by a tree and by a list', function () {
    const seen: Seen = new Map();
    const verdicts = new Set<string>();
    const sizes = fc.constantFrom(1, 3, 8, 20);
    const any = sizes.chain((size) => scenario({ size, flows: flowCount(100), features: ALL_FEATURES }));
    const crowds = fc.constantFrom(...CROWD_KINDS).chain((kind) => {
      return scenario({ size: 4, flows: flowCount(100), features: ALL_FEATURES, crowd: { rules: 60, kind } });
    });
    const nodePort = any.map((drawn) => ({
      ...drawn,
      objects: drawn.objects.map(ofNodePort),
      flows: drawn.flows.map((flow) => ({ ...flow, direction: 'ingress', traffic: 'NodePort' }) as const),
    }));
    check(
      this,
      150,
      fc.oneof(any, nodePort, crowds),
      (drawn) => {
        for (const verdict of assertSame(drawn, seen)) verdicts.add(verdict);
      },
      () => VERDICTS.filter((one) => !verdicts.has(one)),
    );
  });
});

/**
 * What docs/dataplanes.md says of packets that NAT has changed: no ipset knows the destination
 * before it, and what NAT leads to the Node itself is judged as NodePort traffic behind it.
 */
function differsByNature({ direction, family, original, isForwarded }: Packet, state: NodeState): boolean {
  if (original === null || isForwarded) return false;
  if (direction === 'ingress') return state.rules.some(({ traffic }) => traffic === 'NodePort');
  const address = { family, value: original.dst };
  return [state.allNodes, state.controllers].some((id) => {
    const set = state.addressSets.get(id);
    return set !== undefined && hasMember(set.members, address);
  });
}

const VERDICTS = ['Host', 'NodePort'].flatMap((traffic) =>
  ['Allow', 'Drop', 'Reject'].map((verdict) => `${traffic} ${verdict}`),
);

/** The verdicts that were met. */
function assertSame(drawn: Scenario, seen: Seen): Set<string> {
  const { state, config, traces } = agree(drawn, seen);
  const verdicts = new Set<string>();
  const tracers = (['indexed', 'linear'] satisfies DispatchMode[]).map((dispatch) => {
    const asked: Config = { ...config, dispatch };
    return [dispatch, iptablesTracer(iptablesRenderer(asked)(state))] as const;
  });
  for (const { packet, linear } of traces) {
    if (differsByNature(packet, state)) continue;
    const { verdict, counted, recorded } = linear;
    const source = verdict === 'Allow' ? null : linear.source;
    const expected: IptablesTrace = { verdict, source, counted, recorded };
    for (const [dispatch, trace] of tracers) assert.deepEqual(trace(packet), expected, dispatch);
    verdicts.add(`${packet.isForwarded ? 'NodePort' : 'Host'} ${verdict}`);
  }
  return verdicts;
}
