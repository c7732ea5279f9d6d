/**
 * What leases of floating addresses cost the leading controller: heartbeats of gateway nodes, each
 * with slots that it renews, as JSON both ways, without HTTPS; then one node is silent.
 */
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../apis/egress/objects.ts';
import { type LeaseGrant, parseLeaseRequest } from '../../apis/heartbeat.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { egressCompiler } from '../../controller/egress/compile-egress.ts';
import { LeaseGranter } from '../../controller/egress/lease/lease-table.ts';
import { AddressOwners } from '../../controller/egress/owners/address-owners.ts';
import { EgressStatusKeeper } from '../../controller/egress/status/keeper.ts';
import type { StatusWriter } from '../../controller/status/writer.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../../test/fake/egress-objects.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

const input = trialInput<{ nodes: number; gateways: number; policies: number; seconds: number }>();
const list = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));

const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
const clock = fakeClock();
const written = new Map<string, unknown>();
const writer: StatusWriter<object> = {
  submit: (path, _uid, status) => void written.set(path, status),
  forget: () => undefined,
  has: () => false,
  clear: async () => undefined,
  waiting: () => 0,
};
let moves = 0;
const granter = new LeaseGranter({
  clock,
  isLeader: () => true,
  answered: (taken) => owners.heartbeatAnswered(taken),
});
const wallClock = { ...clock, date: () => new Date(0) };
const owners: AddressOwners = new AddressOwners({
  clock: wallClock,
  granter,
  heartbeatClock: clock,
  decided: (decisions) => keeper.decided(decisions),
  moved: (_gateway, some) => {
    moves += some.length;
  },
});
const keeper = new EgressStatusKeeper({ writer, gatewayWriter: writer, clock: wallClock, owners });

const nodes = list(input.nodes, (i) => fakeNode(`n${i}`, [`10.1.${i >> 8}.${i & 255}`]));
let gateways = list(input.gateways, (i) => ({
  ...fakeGateway(`g${i}`, { ranges: [`100.${i}.0.0/20`] }),
  uid: `g${i}`,
}));
let policies = list(input.policies, (i) => {
  const address = { allocation: 'Dedicated', fixed: {}, count: 1 } as const;
  return { ...fakePolicy(`p${i}`, { gateway: `g${i % input.gateways}`, address }), uid: `p${i}` };
});

function publish(): void {
  const pathOf = ({ kind, name }: EgressGateway | EgressPolicy): string => `${kind}/${name}`;
  const stored = <T extends EgressGateway | EgressPolicy>(object: T): T => {
    return { ...object, status: (written.get(pathOf(object)) ?? null) as T['status'] };
  };
  gateways = gateways.map(stored);
  policies = policies.map(stored);
  for (const object of [...gateways, ...policies]) {
    const { kind, name, uid, generation } = object;
    keeper.version(null, { kind, name, uid, generation, since: 0, path: pathOf(object), status: null });
  }
  const objects = { ...NO_OBJECTS, nodes, egressGateways: gateways, egressPolicies: policies };
  const compiled = compile(objects);
  owners.publish(compiled);
  keeper.publish({ compiled, nodes: new Map(), policies, problems: [] });
  clock.pass(500);
}

const granted = new Map<string, readonly LeaseGrant[]>();
let bytes = 0;

/** One heartbeat of each node. */
function beat(silent: string | null): void {
  for (const { name: node } of nodes) {
    if (node === silent) continue;
    const held = (granted.get(node) ?? []).map((grant) => ({ ...grant, milliseconds: 1500 }));
    const ready = gateways.map(({ name: gateway }) => ({ gateway, ready: true }));
    const body = JSON.stringify({ node, boot: 'b', sent: clock.now(), held, ready });
    const request = parseLeaseRequest(JSON.parse(body), node);
    const said = JSON.stringify(granter.grant(request));
    granted.set(node, JSON.parse(said).grants);
    bytes += body.length + said.length;
  }
}

owners.lead(true);
await keeper.lead(true);
publish();
publish();
for (let i = 0; i < 10; i++) {
  beat(null);
  clock.pass(500);
}
bytes = 0;
const seconds: number[] = [];
for (let i = 0; i < input.seconds; i++) {
  const { cpu } = await timed(() => {
    for (let half = 0; half < 2; half++) {
      beat(null);
      clock.pass(500);
    }
  });
  seconds.push(cpu);
}
const slots = [...granted.values()].reduce((sum, own) => sum + own.length, 0);
for (let half = 0; half < 3; half++) {
  beat('n5');
  clock.pass(499);
}
const { milliseconds } = await timed(() => clock.pass(10));
answer({
  perSecond: median(seconds),
  kilobytes: bytes / 1e3 / input.seconds,
  slots,
  moves,
  silent: milliseconds,
});
