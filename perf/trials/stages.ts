/**
 * Compile, view, render and apply in this process and its network namespace, each timed: what an
 * agent does from an event on, without its debounce.
 */

import { Netlink } from 'nftables-napi';
import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { iptablesTools } from '../../agent/apply/iptables/tools.ts';
import { netlinkKernel } from '../../agent/apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import type { Reconciler } from '../../agent/apply/reconciler-interface.ts';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import type { IptablesRuleset } from '../../agent/render/iptables/tables.ts';
import { renderer } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/node-view.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { timed } from './trial.ts';

/** Milliseconds. */
export interface Stage {
  readonly compile: number;
  readonly render: number;
  /** Until all is in force; what is read and swept after that is not in it. */
  readonly apply: number;
  /** Of it: sending and the kernel's work. */
  readonly kernel: number;
  readonly all: number;
  /** Processor time, all threads, of apply. */
  readonly applyCpu: number;
}

interface Stages<Desired = Ruleset> {
  enforce(objects: ClusterObjects): Promise<Stage>;
  /** Rendered last. */
  ruleset(): Desired;
  /** Processes started so far, to apply. */
  processes(): number;
  close(): Promise<void>;
}

export function stages(config: Config = DEFAULT_CONFIG): Stages {
  const netlink = new Netlink();
  return {
    ...pipeline(renderer(config), new NodeRuleReconciler(netlinkKernel(netlink))),
    processes: () => 0,
    close: () => netlink.close(),
  };
}

/** Which iptables: over nf_tables, or with the kernel's own old tables. */
export type Variant = 'nft' | 'legacy';

export function iptablesStages(variant: Variant): Stages<IptablesRuleset> {
  const tools = iptablesTools(variant);
  return {
    ...pipeline(iptablesRenderer(DEFAULT_CONFIG), new IptablesReconciler(tools)),
    processes: () => tools.processes(),
    close: () => Promise.resolve(),
  };
}

/** What a trial asks for: iptables where it names a variant, else nftables. */
export function stagesOf(variant: Variant | undefined): Omit<Stages, 'ruleset'> {
  return variant === undefined ? stages() : iptablesStages(variant);
}

function pipeline<Desired>(render: (state: NodeState) => Desired, reconciler: Reconciler<Desired>) {
  const [compile, view] = [compiler(), nodeViewer(NODE_NAME)];
  let last: Desired | null = null;
  return {
    async enforce(objects: ClusterObjects): Promise<Stage> {
      const state = await timed(() => view(compile(objects)));
      const ruleset = await timed(() => render(state.result));
      last = ruleset.result;
      const applied = await timed(() => reconciler.apply(ruleset.result));
      const { enforcedAfter, kernelMicroseconds } = applied.result;
      return {
        compile: state.milliseconds,
        render: ruleset.milliseconds,
        apply: enforcedAfter,
        kernel: kernelMicroseconds / 1000,
        all: state.milliseconds + ruleset.milliseconds + enforcedAfter,
        applyCpu: applied.cpu,
      };
    },
    ruleset(): Desired {
      if (last === null) throw new Error('nothing is rendered');
      return last;
    },
  };
}
