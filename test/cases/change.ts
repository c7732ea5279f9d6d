import { removeTable } from '../../agent/apply/netlink/kernel.ts';
import type { Command } from '../../agent/apply/plan/command.ts';
import { transactionText } from '../../agent/apply/plan/transaction.ts';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { renderer } from '../../agent/render/render.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { nameResolver } from '../../apis/names.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { nodeViewer } from '../../controller/publish/node-view.ts';
import { type FakeKernel, fakeKernel } from '../fake/fake-kernel.ts';
import type { Expectation } from './case.ts';
import { type Inputs, keptFrom } from './inputs.ts';

/** What the last step changes in the kernel, from the state of the steps before it. */
export async function changeText({ node, steps }: Expectation, history: readonly Inputs[]): Promise<string> {
  const kernel = fakeKernel();
  const [compile, view] = [compiler(), nodeViewer(node ?? history[0]?.firstNode ?? '')];
  const resolve = nameResolver();
  let agent: Agent | null = null;
  let objects: Inputs['objects'] | null = null;
  let text = '';
  for (const [i, inputs] of history.entries()) {
    objects = keptFrom(objects, inputs.objects);
    const state = resolve(view(compile(objects)), inputs.names);
    const { config } = inputs;
    const foreign = steps[i - 1]?.filter(({ info }) => info === 'foreign') ?? [];
    for (const fence of foreign) await kernel.transact(fence.text.trimEnd().split('\n').map(foreignCommand));
    // A new configuration is a new process; it has the digests that the last one saved.
    if (agent === null || JSON.stringify(agent.config) !== JSON.stringify(config)) {
      agent = startAgent(kernel, config, agent);
    }
    text = await agent.enforce(state);
  }
  return text;
}

interface Agent {
  readonly config: Config;
  readonly reconciler: NodeRuleReconciler;
  /** What it found changed, and what it does. */
  enforce(state: NodeState): Promise<string>;
}

function startAgent(kernel: FakeKernel, config: Config, before: Agent | null): Agent {
  const render = renderer(config);
  const reconciler = new NodeRuleReconciler(kernel, { remembered: before?.reconciler.digests() ?? {} });
  return {
    config,
    reconciler,
    async enforce(state) {
      if (config.featureGates.NodeNetworkPolicy === false) {
        await removeTable(kernel);
        return `# remove\n${kernel.calls.at(-1)?.lines.join('\n')}\n`;
      }
      const found = (await reconciler.verify()).map((line) => `# found: ${line}\n`).join('');
      const { interimRuleset, transaction } = await reconciler.apply(render(state));
      const interim =
        interimRuleset === null ? '' : `# interim ruleset\n${transactionText(interimRuleset)}# from there\n`;
      return found + interim + transactionText(transaction);
    },
  };
}

/** What another program may do to the table, in nft's language. */
function foreignCommand(line: string): Command {
  const [, verb, name = '', rule = ''] =
    /^(flush chain|add rule|flush set) inet nodewall (\S+)(?: (accept|drop))?$/.exec(line) ?? [];
  switch (verb) {
    case 'flush chain':
      return { kind: 'flushChain', name };
    case 'flush set':
      return { kind: 'flushElements', set: name, keyLength: 4, interval: false, keys: new Uint8Array() };
    case 'add rule': {
      const statement = { kind: rule === 'accept' ? 'accept' : 'drop' } as const;
      const added = { matches: [], counter: false, statement, comment: null };
      return { kind: 'addRule', chain: name, rule: added, source: null };
    }
    default:
      throw new Error(`not a foreign change: ${line}`);
  }
}
