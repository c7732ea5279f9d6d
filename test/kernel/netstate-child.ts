/**
 * Keeps the Netstates that its parent (egress-netstate.test.ts) writes to its standard input, one a
 * line, in the network namespace that it is started in, with the WireGuard key of the state
 * directory that it is given. Says what it did, one JSON value a line.
 */

import { createInterface } from 'node:readline';
import { RouteMonitor, RouteSocket } from 'nftables-napi';
import { createLogger } from 'winston';
import { kernelSysctls } from '../../agent/egress/apply/host-settings.ts';
import { NetstateKeeper } from '../../agent/egress/apply/netstate-keeper.ts';
import { NetstateReconciler } from '../../agent/egress/apply/netstate-reconciler.ts';
import { wireguardPort } from '../../agent/egress/open-network.ts';
import { savedKeys } from '../../agent/egress/wireguard-keys.ts';
import { systemClock } from '../../lib/process/clock.ts';

const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`);
const socket = new RouteSocket();
const [stateDir = ''] = process.argv.slice(2);
const wireguard = wireguardPort(
  stateDir === '' ? null : await savedKeys(stateDir, createLogger({ silent: true })),
);
const keeper = new NetstateKeeper({
  reconciler: new NetstateReconciler(socket, kernelSysctls(socket), wireguard),
  clock: systemClock,
  open: (listener) => new RouteMonitor({}, listener),
  drifted: (operations) => say({ drifted: operations }),
  problems: (problems) => say({ problems }),
  troubled: (trouble) => say({ trouble }),
});
for await (const line of createInterface(process.stdin))
  say({ applied: await keeper.apply(JSON.parse(line)) });
await keeper.close();
await socket.close();
await wireguard.close();
