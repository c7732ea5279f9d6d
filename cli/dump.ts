import { NOTHING_HELD } from '../agent/apply/held.ts';
import { transaction } from '../agent/apply/transaction.ts';
import { transactionText } from '../agent/apply/transactiontext.ts';
import { receive } from '../agent/receive/receive.ts';
import { render } from '../agent/render/render.ts';
import type { NodeState } from '../apis/compiled.ts';
import { formatMembers } from '../apis/memberset.ts';
import { snapshot } from '../apis/snapshot.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { savedDigests } from './lastgood.ts';
import { load, loadConfig, loadNode, type NodeOptions } from './load.ts';
import { json, print } from './output.ts';

type DumpOptions = NodeOptions & { readonly fromEmpty?: boolean; readonly stateDir?: string };

/** Prints the value of one stage (DESIGN: each stage's value can be printed). */
export async function dump(
  stage: 'objects' | 'wire' | 'state' | 'transaction',
  options: DumpOptions,
): Promise<ExitStatus> {
  if (stage === 'objects') {
    const config = await loadConfig(options.config);
    await print(json((await load(options, config)).objects));
    return EXIT.done;
  }
  const { state, config } = await loadNode(options);
  switch (stage) {
    case 'wire':
      for (const message of snapshot(state)) await print(`${JSON.stringify(message)}\n`);
      break;
    case 'state':
      await print(json(toJson(receive(snapshot(state)))));
      break;
    case 'transaction': {
      const desired = render(state, config);
      const change = options.fromEmpty
        ? transaction(NOTHING_HELD, desired)
        : await (await import('./kernel.ts')).withKernel((kernel) =>
            planned(kernel, desired, options.stateDir),
          );
      await print(transactionText(change));
      break;
    }
  }
  return EXIT.done;
}

async function planned(
  kernel: import('../agent/apply/kernel.ts').Kernel,
  desired: ReturnType<typeof render>,
  stateDir: string | undefined,
): Promise<ReturnType<typeof transaction>> {
  const { NodeRuleReconciler } = await import('../agent/apply/reconciler.ts');
  // As an agent that is started now: chains that still have their digests are what their names say.
  const remembered = stateDir === undefined ? {} : await savedDigests(stateDir);
  return new NodeRuleReconciler(kernel, { remembered }).plan(desired);
}

function toJson(state: NodeState): object {
  return {
    ...state,
    addressSets: [...state.addressSets.values()].map(({ members, ...set }) => ({
      ...set,
      members: formatMembers(members),
    })),
    serviceSets: [...state.serviceSets.values()],
  };
}
