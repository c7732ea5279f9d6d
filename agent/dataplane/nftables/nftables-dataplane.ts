import type { Generation } from 'nftables-napi';
import type { Reconciler } from '../../apply/dataplane.ts';
import { DeadlineKeeper, withDeadline } from '../../apply/deadline.ts';
import { Enforcer } from '../../apply/enforcer.ts';
import type { Envelope } from '../../apply/envelope.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import { nftDeadline } from '../../apply/netlink/nft-deadline.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import type { OpenFloating, openFloating } from '../../egress/floating/open-floating.ts';
import type { EgressHealth } from '../../egress/health/egress-health.ts';
import type { openNetwork } from '../../egress/open-network.ts';
import { countedKernel, kernelCounts } from '../../record/counted-kernel.ts';
import { nftOwners } from '../../record/owners.ts';
import { DEADLINE_SETS, deadlineOf } from '../../render/deadline.ts';
import { renderer } from '../../render/render.ts';
import type { Ruleset } from '../../render/ruleset.ts';
import type { Dataplane, DataplaneOptions, Running } from '../dataplane.ts';
import { nftBootFiles } from './boot-files.ts';
import type { egressEnforcer } from './egress-enforcer.ts';
import { steeringLeftOvers } from './left-overs.ts';
import { watchKernel } from './watch-kernel.ts';

/** Egress gateways need these besides; loaded only if the feature gate is on. */
export interface EgressParts {
  readonly openFloating: typeof openFloating;
  /** Their elements change all the time. */
  readonly LIVE_SETS: readonly string[];
  readonly openNetwork: typeof openNetwork;
  readonly egressEnforcer: typeof egressEnforcer;
  readonly EgressHealth: typeof EgressHealth;
}

/**
 * The dataplane with one nftables table, through netlink.
 * @param egress null: the feature gate EgressGateway is off
 */
export function nftablesDataplane(kernel: Kernel, egress: EgressParts | null): Dataplane {
  return {
    name: 'nftables',
    run(options) {
      const {
        log,
        digests,
        readings,
        troubled,
        deadlinePassed: passed = () => {},
        enforcer: parts,
      } = options;
      const committed = (generation: Readonly<Generation>): void => reconciler.committed(generation);
      const floating = egress?.openFloating({ log, clock: parts.clock, committed, troubled }) ?? null;
      const counted = countedKernel(floating?.keptIn(kernel) ?? kernel, readings);
      const reconciler = new NodeRuleReconciler(counted, { remembered: digests });
      const { clock } = parts;
      const deadline = new DeadlineKeeper({ clock, log, kernel: nftDeadline(kernel, committed), passed });
      const enforcer =
        egress === null || floating === null
          ? plainEnforcer(options, withDeadline(withoutSteering(reconciler, kernel), deadline, deadlineOf))
          : withEgress(options, { reconciler, egress, floating, deadline });
      return {
        enforcer,
        counts: kernelCounts(counted),
        owners() {
          const ruleset = reconciler.inForce();
          return ruleset === null ? null : nftOwners(ruleset);
        },
        bootFiles(state) {
          const ruleset = reconciler.inForce();
          return () => (ruleset === null ? {} : nftBootFiles(ruleset, state, options.config));
        },
        digests: () => reconciler.digests(),
        deadline,
        floating: floating?.kernel ?? null,
        egressHealth: enforcer.egressHealth,
        egressMemory: enforcer.egressMemory,
        watch() {
          const quietSets = [...(egress?.LIVE_SETS ?? []), ...Object.values(DEADLINE_SETS)];
          return watchKernel({ reconciler, enforcer, log, clock: parts.clock, troubled, quietSets });
        },
      };
    },
  };
}

type Enforcing = Running['enforcer'] & Pick<Running, 'egressHealth' | 'egressMemory'>;

/** The first rules without egress gateways replace those of an earlier run that may have some. */
function withoutSteering(reconciler: NodeRuleReconciler, kernel: Kernel): Reconciler<Ruleset> {
  let isFirst = true;
  return {
    async apply(desired) {
      if (isFirst) await steeringLeftOvers(kernel).remove().catch(laterRemoved);
      isFirst = false;
      return await reconciler.apply(desired);
    },
    verify: () => reconciler.verify(),
    holdsRules: () => reconciler.holdsRules(),
  };
}

/** Rules do not wait for that: left-overs are removed behind them as well, until it works. */
function laterRemoved(): void {}

function plainEnforcer({ config, enforcer }: DataplaneOptions, reconciler: Reconciler<Ruleset>): Enforcing {
  return new Enforcer({ ...enforcer, reconciler, renderer: (canLog) => renderer(config, canLog) });
}

interface EgressWith {
  readonly reconciler: NodeRuleReconciler;
  readonly egress: EgressParts;
  readonly floating: OpenFloating;
  readonly deadline: DeadlineKeeper;
}

function withEgress(
  options: DataplaneOptions,
  { reconciler, egress, floating, deadline }: EgressWith,
): Enforcing {
  const { config, log, troubled, egressProblems, egressHealth, enforcer: parts } = options;
  const drifted = (repairs: readonly string[]): void => parts.events.drifted(repairs);
  const { clock } = parts;
  const addressesChanged = (): void => health.refresh();
  const around = { config, log, clock, drifted, troubled, floating };
  const network = egress.openNetwork({
    ...around,
    keys: options.wireguard ?? null,
    addressesChanged,
    incomplete: egressProblems,
  });
  let latest: Envelope | null = null;
  const health: EgressHealth = new egress.EgressHealth({
    clock,
    log,
    interfaces: network.interfaces,
    lost: options.lostGateways ?? [],
    changed() {
      if (latest !== null) enforcer.submit(latest);
    },
    reported: (report) => egressHealth?.(report, enforcing.memory()),
  });
  const last = options.lastEgress ?? null;
  const enforcing = egress.egressEnforcer({
    config,
    enforcer: parts,
    reconciler,
    network,
    health,
    last,
    deadline,
  });
  const { enforcer } = enforcing;
  return {
    submit(envelope) {
      latest = envelope;
      enforcer.submit(envelope);
    },
    verify: () => enforcer.verify(),
    async idle() {
      await health.idle();
      await enforcer.idle();
    },
    egressHealth: () => health.report(),
    egressMemory: enforcing.memory,
    async close() {
      await enforcer.close();
      // After the apply in progress, which asks what it put in force.
      health.close();
      await network.close();
      await floating.close();
    },
  };
}
