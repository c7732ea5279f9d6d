/**
 * The kernel side of one node for floating addresses, in the network namespace that it is started
 * in, as an agent has it, but with leases given by hand: its parent (floating.test.ts) writes one
 * call a line to its standard input. Says the results, one JSON value a line.
 */

import { createInterface } from 'node:readline';
import { Netlink } from 'nftables-napi';
import { createLogger, transports } from 'winston';
import { envelopeOf } from '../../agent/apply/envelope.ts';
import { netlinkKernel } from '../../agent/apply/netlink/kernel.ts';
import type { Dataplane } from '../../agent/dataplane/dataplane.ts';
import { DATAPLANES } from '../../agent/dataplane/dataplanes.ts';
import { EgressDataplane } from '../../agent/egress/egress-dataplane.ts';
import { FloatingLate } from '../../agent/egress/floating-kernel.ts';
import type { OwnedAddress } from '../../apis/egress/node-egress.ts';
import { loadConfig, loadObjects, resolvedState } from '../../cli/load.ts';
import { systemClock } from '../../lib/process/clock.ts';

const [, , node = '', manifests = '', configPath = ''] = process.argv;
const config = await loadConfig(configPath);
const netlink = new Netlink();
const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`);
const log = createLogger({
  transports: [new transports.Console({ stderrLevels: ['error', 'warn', 'info', 'debug'] })],
});
const { dataplane } = await (await DATAPLANES.nftables.port()).open(config, netlinkKernel(netlink));
const egress = new EgressDataplane({
  config,
  last: null,
  lost: [],
  keys: null,
  problems() {},
  reported() {},
});
const { enforcer, watch } = start(dataplane);

function start(plane: Dataplane) {
  return plane.run({
    config,
    log,
    digests: {},
    readings: { all() {}, some() {} },
    troubled() {},
    extension: egress,
    enforcer: {
      clock: systemClock,
      lastGood: async () => null,
      events: {
        enforced: ({ failed }) => say({ enforced: [...failed.keys()] }),
        failed: (error) => say({ failed: error.message }),
        unrecorded() {},
        drifted: (drifted) => say({ drifted }),
      },
    },
  });
}

interface Call {
  readonly id: number;
  readonly call: 'load' | 'read' | 'take' | 'renew' | 'drop';
  readonly addresses: readonly string[];
  /** Of a lease, in milliseconds from now. */
  readonly lease: number;
}

const kernel = egress.floating ?? fail('no floating addresses');
const stop = watch();

async function run({ call, addresses, lease }: Call): Promise<unknown> {
  const until = systemClock.now() + lease;
  switch (call) {
    case 'load': {
      const loaded = await loadObjects({ manifests: [manifests], config: configPath });
      enforcer.submit(envelopeOf(await resolvedState(loaded, { node, names: undefined })));
      return null;
    }
    case 'read':
      return await kernel.read();
    case 'take': {
      const owned = addresses.map((address): OwnedAddress => ({ address, announce: 'L2' }));
      try {
        return await kernel.assign(owned, until);
      } catch (error) {
        if (error instanceof FloatingLate) return 'late';
        throw error;
      }
    }
    case 'renew':
      return await kernel.renew(addresses.map((address) => ({ address, until })));
    case 'drop':
      return await kernel.drop(addresses);
  }
}

for await (const line of createInterface(process.stdin)) {
  const call: Call = JSON.parse(line);
  // Calls overlap, as those of an agent do.
  void run(call).then(
    (result) => say({ id: call.id, result }),
    (error: Error) => say({ id: call.id, error: error.message }),
  );
}
await stop();
await enforcer.close();
await netlink.close();

function fail(message: string): never {
  throw new Error(message);
}
