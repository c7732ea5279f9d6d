/** Compile, view, render and apply in this process and its network namespace, each timed: what an agent does from an event on, without its debounce. */
import { Netlink } from 'nftables-napi';
import { netlinkKernel } from '../../agent/apply/netlinkkernel.ts';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { renderer } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/nodeview.ts';
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

export interface Stages {
  enforce(objects: ClusterObjects): Promise<Stage>;
  /** Rendered last. */
  ruleset(): Ruleset;
  close(): Promise<void>;
}

export function stages(config: Config = DEFAULT_CONFIG): Stages {
  const netlink = new Netlink();
  const reconciler = new NodeRuleReconciler(netlinkKernel(netlink));
  const [compile, view, render] = [compiler(), nodeViewer(NODE_NAME), renderer(config)];
  let last: Ruleset | null = null;
  return {
    async enforce(objects) {
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
    ruleset() {
      if (last === null) throw new Error('nothing is rendered');
      return last;
    },
    close: () => netlink.close(),
  };
}
