import assert from 'node:assert/strict';
import fc from 'fast-check';
import { render } from '../../agent/render/render.ts';
import type { CompiledRule, NodeState, PortRange } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { compiledRule, stateOf } from '../fake/node-state.ts';
import type { Packet } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { indexSize, largestIndex } from './index-size.ts';
import { check } from './runs.ts';

/** Overlapping port ranges are what an index by port is worst at: n of them can need n² entries. */

const PORT = fc.oneof(fc.integer({ min: 1, max: 65535 }), fc.integer({ min: 100, max: 160 }));
const RANGE = fc.tuple(PORT, PORT).map(([a, b]): PortRange => [Math.min(a, b), Math.max(a, b)]);
const ANY: readonly PortRange[] = [];
const RULES = fc.array(
  fc.oneof({ weight: 9, arbitrary: fc.array(RANGE, { minLength: 1, maxLength: 3 }) }, fc.constant(ANY)),
  {
    minLength: 1,
    maxLength: 60,
  },
);

describe('overlapping port ranges', function () {
  this.timeout(0);

  it('never change which rule decides, and stay bounded', function () {
    check(this, 60, RULES, (rules) => {
      const state = toState(rules);
      const indexed = render(state, DEFAULT_CONFIG);
      const walk = tracer(indexed);
      for (const port of portsAround(rules)) {
        const wanted = rules.findIndex((ranges) => isIn(ranges, port));
        const { source: found } = walk(packet(port));
        assert.equal(found?.ruleIndex ?? -1, wanted, `port ${port} of ${JSON.stringify(rules)}`);
      }
      assertBounded(state);
    });
  });

  for (const [title, range] of [
    ['nested', (i: number): PortRange => [100 + 20 * i, 60000 - 20 * i]],
    ['each over half of the next', (i: number): PortRange => [100 + 20 * i, 10000 + 20 * i]],
    ['all from port 1', (i: number): PortRange => [1, 100 + 20 * i]],
  ] as const) {
    it(`stay bounded: 1000 of them, ${title}`, () => {
      assertBounded(toState(Array.from({ length: 1000 }, (_, i) => [range(i)])));
    });
  }
});

function assertBounded(state: NodeState): void {
  const size = indexSize(render(state, DEFAULT_CONFIG));
  const most = largestIndex(state, DEFAULT_CONFIG);
  assert.ok(size.rules <= most.rules, `${size.rules} rules, at most ${most.rules}`);
  assert.ok(size.elements <= most.elements, `${size.elements} elements, at most ${most.elements}`);
}

function isIn(ranges: readonly PortRange[], port: number): boolean {
  return ranges.length === 0 || ranges.some(([first, last]) => first <= port && port <= last);
}

function portsAround(rules: readonly (readonly PortRange[])[]): number[] {
  const edges = rules.flat(2).flatMap((port) => [port - 1, port, port + 1]);
  return [...new Set([1, 65535, ...edges])].filter((port) => port >= 0 && port <= 65535);
}

function packet(dstPort: number): Packet {
  return {
    direction: 'ingress',
    family: 4,
    src: 0x0a000001n,
    dst: 0xc0000201n,
    protocol: 6,
    srcPort: 40000,
    dstPort,
    interface: { name: 'eth0', group: 0 },
    established: false,
    original: null,
    isForwarded: false,
  };
}

function toState(rules: readonly (readonly PortRange[])[]): NodeState {
  return stateOf(rules.map(toRule));
}

function toRule(ranges: readonly PortRange[], ruleIndex: number): CompiledRule {
  return compiledRule(`rule-${ruleIndex}`, {
    source: { ruleIndex },
    priority: 1,
    action: ruleIndex % 2 === 0 ? 'Allow' : 'Drop',
    services: ranges.map((ports) => ({ protocol: 'tcp', ports })),
  });
}
