import assert from 'node:assert/strict';
import fc from 'fast-check';
import { findings, hasError } from '../../apis/validate/problem.ts';
import { SPIDERNET } from '../../cli/migrate/spidernet.ts';
import type { Given } from '../../cli/migrate/translation.ts';
import { compileEgress } from '../../controller/egress/compile-egress.ts';
import { egressExplainer } from '../../controller/egress/decide.ts';
import { policyFlows, someOf } from '../generate/egress/flows.ts';
import { type Members, members } from '../generate/egress/members.ts';
import { spidernetObjects } from '../generate/egress/spidernet.ts';
import { egressOracle, type Permission } from '../oracle/egress/egress-oracle.ts';
import type { Manifest } from '../oracle/manifest.ts';
import { count, type Seen } from './agree.ts';
import { toEgressInput } from './egress-agree.ts';
import { toConfig } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';

interface Drawn {
  readonly members: Members;
  readonly theirs: readonly Manifest[];
  readonly offset: number;
}

const DRAWN: fc.Arbitrary<Drawn> = members(12).chain((one) =>
  fc.record({
    members: fc.constant(one),
    theirs: spidernetObjects(one.nodes).map((theirs) => theirs.map(withPairedDefault)),
    offset: fc.nat({ max: 100_000 }),
  }),
);

/** The default addresses are a pair, as statuses have them. */
function withPairedDefault(object: Manifest): Manifest {
  const copy = structuredClone(object) as Manifest & {
    spec: { ippools?: { ipv6?: string[]; ipv4DefaultEIP?: string; ipv6DefaultEIP?: string } };
  };
  const { ippools } = copy.spec;
  if (ippools?.ipv6 === undefined) return copy;
  const partner = { '203.0.114.1': '2001:db8:d::1', '203.0.114.10': '2001:db8:d::9' };
  delete ippools.ipv6DefaultEIP;
  const first = ippools.ipv4DefaultEIP as keyof typeof partner;
  if (Object.hasOwn(partner, first ?? '')) ippools.ipv6DefaultEIP = partner[first];
  return copy;
}

/** Differences that it only names: subnets beside a selector, owners of addresses. */
function withoutNamed(theirs: readonly Manifest[]): Manifest[] {
  return theirs.flatMap((object) => {
    const copy = structuredClone(object) as Manifest & {
      spec?: { appliedTo?: { podSelector?: object; podSubnet?: unknown } };
      status?: { nodeList: { status?: string }[] };
    };
    for (const node of copy.status?.nodeList ?? []) node.status = 'Ready';
    const { appliedTo } = copy.spec ?? {};
    if (appliedTo?.podSubnet === undefined) return copy;
    if (appliedTo.podSelector !== undefined) delete appliedTo.podSubnet;
    else if (object.kind === 'EgressPolicy') return [];
    return copy;
  });
}

function toGiven(object: object): Given {
  return { raw: { ...object }, file: 'a.yaml', lineOf: () => 1, found: findings() };
}

describe('nodewall migrate', function () {
  this.timeout(0);

  it('gives every flow the verdict and the address that egressgateway’s objects permit', function () {
    const seen: Seen = new Map();
    check(
      this,
      200,
      DRAWN,
      ({ members: { nodes, namespaces, pods }, theirs, offset }) => {
        const others = [...nodes, ...namespaces, ...pods];
        const own = theirs.map(toGiven);
        const translated = SPIDERNET.translate(own, others.map(toGiven));
        const read = own.filter(({ found }) => !hasError(found.problems)).map(({ raw }) => raw as object);
        const inside = read.some((one) => (one as Manifest).kind === 'EgressClusterInfo')
          ? ['192.0.2.96/28']
          : [];
        const judge = egressOracle([...others, ...withoutNamed(read as Manifest[])]);
        const input = toEgressInput([...others, ...translated.map(({ manifest }) => manifest)]);
        const explain = egressExplainer(input, compileEgress(input, toConfig({ egress: { inside } }).egress));
        for (const flow of someOf(policyFlows([...others, ...theirs]), flowCount(200), offset)) {
          const answer = explain(flow);
          count(seen, answer.verdict);
          const permitted = judge(flow).some((one) =>
            isSame(
              one,
              answer,
              nodes.map(({ metadata }) => metadata.name),
            ),
          );
          const found = () =>
            JSON.stringify(
              {
                flow,
                answer,
                wanted: judge(flow),
                theirs,
                translated: translated.map(({ manifest }) => manifest),
                others,
              },
              null,
              1,
            );
          assert.ok(permitted, permitted ? '' : found());
        }
      },
      missingOf(seen, ['Gateway', 'Direct', 'Drop']),
    );
  });
});

/** Gateways may have other names, and owners of addresses may be others. */
function isSame(
  { verdict, exit }: Permission,
  answer: ReturnType<ReturnType<typeof egressExplainer>>,
  nodes: readonly string[],
): boolean {
  if (verdict !== answer.verdict) return false;
  return exit === undefined || nodes.some((node) => exit.admits(node, answer.address));
}
