import { type Generation, Monitor, type MonitorEvent, NftError } from 'nftables-napi';
import { FAMILIES, type Family, WIDTH } from '../../../lib/net/address.ts';
import { type Closable, keepOpen } from '../../../lib/process/back-off.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import { pace } from '../../../lib/process/timers.ts';
import { DeadlineKeeper, type DeadlineKernel, withDeadline } from '../../apply/deadline.ts';
import { Enforcer } from '../../apply/enforcer.ts';
import type { Kernel } from '../../apply/netlink/kernel.ts';
import type { Command, ElementsCommand } from '../../apply/plan/command.ts';
import { NodeRuleReconciler } from '../../apply/reconciler.ts';
import type { Reconciler } from '../../apply/reconciler-interface.ts';
import { KERNEL_EXTENSION } from '../../extension/kernel.ts';
import { nftOwners } from '../../record/accounting.ts';
import { countedKernel, kernelCounts } from '../../record/counters.ts';
import { DEADLINE_SETS, deadlineOf } from '../../render/deadline.ts';
import { renderer } from '../../render/render.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';
import type { Dataplane, MonitorTrouble } from '../dataplane.ts';
import { nftBootFiles } from './text.ts';

/** The dataplane with one nftables table, through netlink. */
export function nftablesDataplane(kernel: Kernel): Dataplane {
  return {
    name: 'nftables',
    run(options) {
      const { config, log, digests, readings, troubled, deadlinePassed: passed = () => {} } = options;
      const { enforcer: parts } = options;
      const { clock } = parts;
      const committed = (generation: Readonly<Generation>): void => reconciler.committed(generation);
      const extension = options.extension?.open({ kernel, log, clock, committed, troubled }) ?? null;
      const counted = countedKernel(extension?.kernel ?? kernel, readings);
      const reconciler = new NodeRuleReconciler(counted, { remembered: digests });
      const deadline = new DeadlineKeeper({ clock, log, kernel: nftDeadline(kernel, committed), passed });
      const timed = <Desired extends Ruleset>(one: Reconciler<Desired>): Reconciler<Desired> =>
        withDeadline(one, deadline, deadlineOf);
      const render = (canLog: boolean) => renderer(config, canLog);
      const enforcer =
        extension === null
          ? new Enforcer({ ...parts, reconciler: timed(unextended(reconciler, kernel)), renderer: render })
          : extension.enforce({ rules: reconciler, render, timed, enforcer: parts });
      return {
        enforcer,
        counts: kernelCounts(counted),
        owners() {
          const ruleset = reconciler.inForce();
          return ruleset === null ? null : nftOwners(ruleset);
        },
        bootFiles(state) {
          const ruleset = reconciler.inForce();
          return () => (ruleset === null ? {} : nftBootFiles(ruleset, state, config));
        },
        digests: () => reconciler.digests(),
        deadline,
        watch() {
          const quietSets = [...(extension?.quietSets ?? []), ...Object.values(DEADLINE_SETS)];
          return watchKernel({ reconciler, enforcer, log, clock, troubled, quietSets });
        },
      };
    },
  };
}

/** The first rules without an extension replace those of an earlier run that may have had it. */
function unextended(reconciler: NodeRuleReconciler, kernel: Kernel): Reconciler<Ruleset> {
  let isFirst = true;
  return {
    async apply(desired) {
      if (isFirst) await KERNEL_EXTENSION.replaced(kernel).catch(laterRemoved);
      isFirst = false;
      return await reconciler.apply(desired);
    },
    verify: () => reconciler.verify(),
    holdsRules: () => reconciler.holdsRules(),
  };
}

/** Rules do not wait for that: left-overs are removed behind them as well, until it works. */
function laterRemoved(): void {}

/**
 * Interval of full comparisons with the kernel, besides those after events of the monitor, in
 * milliseconds.
 */
const VERIFY_INTERVAL = 60_000;
/**
 * Milliseconds between two full comparisons after lost events, at least: events may be lost
 * continuously while another program changes its own tables.
 */
const OVERRUN_INTERVAL = 1_000;

interface Watched {
  readonly reconciler: Pick<NodeRuleReconciler, 'isOwn' | 'invalidate'>;
  readonly enforcer: Pick<Enforcer<unknown>, 'idle' | 'verify'>;
  readonly log: Log;
  readonly clock: Clock;
  /** Counts the monitor's failures and losses. */
  readonly troubled: (trouble: MonitorTrouble) => void;
  /** Sets whose elements this agent changes beside the enforcer: their events are none. */
  readonly quietSets: readonly string[];
  /** Default: the addon's Monitor; replaced in tests. */
  readonly open?: (listener: (event: MonitorEvent) => void) => Closable;
}

/**
 * Compares right after a foreign change of our table, and at a long interval. A monitor that fails
 * is opened again. Returns a function that stops it.
 */
export function watchKernel(watched: Watched): () => Promise<void> {
  const { reconciler, enforcer, log, clock, troubled, quietSets } = watched;
  const table = { family: TABLE.family, table: TABLE.name } as const;
  const { open = (listener) => new Monitor({ ...table, quietSets }, listener) } = watched;
  /** A third party may have changed anything that was known. */
  function verifyAll(): void {
    void enforcer.idle().then(() => {
      reconciler.invalidate();
      enforcer.verify();
    });
  }
  const overruns = pace(clock, OVERRUN_INTERVAL, verifyAll);

  function take(event: Extract<MonitorEvent, { kind: 'change' }>): void {
    // The event of our own commit may arrive before its call returns, so it is evaluated once no
    // call is running.
    void enforcer.idle().then(() => {
      if (reconciler.isOwn(event.generation)) return;
      log.debug('a third party changed the table inet nodewall', {
        by: event.processName,
        generation: event.generation,
      });
      enforcer.verify();
    });
  }
  const monitor = keepOpen({
    clock,
    open(failed, isAgain) {
      const opened = open((event) => {
        if (event.kind === 'change') return take(event);
        if (event.kind === 'error') return failed(event.error);
        troubled('overrun');
        overruns.request();
      });
      if (isAgain) {
        log.info('watching the table inet nodewall again; comparing all of it', { stage: 'apply' });
        verifyAll();
      }
      return opened;
    },
    failed(error, retryIn) {
      troubled('failed');
      log.error('the nftables monitor failed; comparing once a minute, opening it again', {
        stage: 'apply',
        error: error.message,
        retryIn,
      });
    },
  });
  const interval = setInterval(() => enforcer.verify(), VERIFY_INTERVAL);
  return async () => {
    clearInterval(interval);
    overruns.close();
    await monitor.close();
  };
}

/** @param committed a transaction that changed nothing but these elements */
export function nftDeadline(
  kernel: Pick<Kernel, 'transact' | 'elements'>,
  committed: (generation: Readonly<Generation>) => void,
): DeadlineKernel {
  /** False: an element, or its set, is not there; then nothing was changed. */
  async function isDone(commands: readonly Command[]): Promise<boolean> {
    try {
      committed((await kernel.transact(commands)).generation);
      return true;
    } catch (error) {
      if (error instanceof NftError && error.all.every(({ code }) => code === 'ENOENT')) return false;
      throw error;
    }
  }
  return {
    async move(milliseconds) {
      if (await isDone(FAMILIES.flatMap((family) => renewal(family, milliseconds)))) return true;
      for (const family of FAMILIES) {
        if (await isDone(renewal(family, milliseconds))) continue;
        // Throws where the set is not there either.
        committed((await kernel.transact([added(family, milliseconds)])).generation);
      }
      return false;
    },
    isThere: async () => (await kernel.elements(DEADLINE_SETS[4])) !== null,
  };
}

/** Linux before 6.12 keeps the timeout of an element that is added again. */
function renewal(family: Family, milliseconds: number): ElementsCommand[] {
  return [{ ...elements(family), kind: 'deleteElements' }, added(family, milliseconds)];
}

function added(family: Family, milliseconds: number): ElementsCommand {
  return { ...elements(family), kind: 'addElements', timeouts: [milliseconds] };
}

function elements(family: Family): Omit<ElementsCommand, 'kind'> {
  const keyLength = WIDTH[family];
  return { set: DEADLINE_SETS[family], keyLength, interval: false, keys: new Uint8Array(keyLength) };
}
