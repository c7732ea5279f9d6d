import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { FlowSource } from '../flows/flow-inventory.ts';
import { fromFlowQuery, toFlowFilter } from '../flows/flow-kind.ts';
import { hostFlow } from '../observe/known-flow.ts';
import { lastRecords, recordsFile } from '../record/record-files.ts';
import { fromQuery, toFilter, wholeNumber } from '../record/record-filter.ts';
import { explanationOf, nodeFlows, type RulesInForce } from './explanation.ts';
import { inspectInterfaceGroups } from './interface-groups.ts';
import { machineFacts } from './machine-facts.ts';
import { ruleCountsHere } from './rule-counts.ts';
import { knownNames } from './saved-state.ts';

interface NodeDataSources {
  readonly stateDir: string;
  readonly config: Config;
  /** Null: this agent has no metrics. */
  readonly metrics: (() => Promise<string>) | null;
  /** Null: the configuration turns the flow inventory off. */
  readonly flows: FlowSource | null;
  /**
   * The agent's additions to the failsafe list of egress (NodeState.controlPlane); absent: nothing.
   */
  readonly controlPlane?: () => readonly FailsafeEntry[];
}

/** Records of an answer: by default, and at most. */
const RECORDS = 100;
const MOST_RECORDS = 1_000;
/** Bytes that are searched for records. */
const SEARCHED = 16 << 20;

/**
 * This node's data as text (see Answered). Throws a CommandError for a question that is wrong
 * (EXIT.usage), or that has no answer.
 */
export async function nodeData(
  { about, query }: NodeQuestion,
  { stateDir, config, metrics, flows, controlPlane = () => [] }: NodeDataSources,
): Promise<string> {
  const parameters = new URLSearchParams(query);
  switch (about) {
    case 'metrics':
      if (metrics === null)
        throw new CommandError(EXIT.invalid, 'the agent has no metrics: it runs without --metrics-listen');
      return await metrics();
    case 'counters':
      return JSON.stringify(await ruleCountsHere(stateDir, config, parameters.get('policy') ?? undefined));
    case 'names':
      return JSON.stringify(await knownNames(stateDir));
    case 'interfaces':
      // The agent has logged at its start that it cannot read a file.
      return JSON.stringify(await inspectInterfaceGroups(stateDir, config, () => {}));
    case 'machine':
      return JSON.stringify(await machineFacts(config, metrics));
    case 'explanation':
      return await explanation(parameters, { stateDir, config, controlPlane: controlPlane() });
    case 'flows': {
      const filter = toFlowFilter(fromFlowQuery(parameters), Date.now());
      if (flows === null)
        throw new CommandError(EXIT.invalid, 'there is no flow inventory: flowInventory.enabled is false');
      return JSON.stringify(
        await nodeFlows(stateDir, config, filter, { ...flows, controlPlane: controlPlane() }),
      );
    }
    case 'records':
      return await records(parameters, stateDir, config);
  }
}

async function explanation(parameters: URLSearchParams, rules: RulesInForce): Promise<string> {
  let flow: Flow;
  try {
    flow = hostFlow(JSON.parse(parameters.get('flow') ?? ''), rules.config);
  } catch (error) {
    throw new CommandError(EXIT.usage, `flow: ${(error as Error).message}`, { cause: error });
  }
  return JSON.stringify(await explanationOf(rules, flow));
}

/** The last records that match, whether there are more, and the time: where to go on from. */
async function records(parameters: URLSearchParams, stateDir: string, config: Config): Promise<string> {
  const lines = parameters.get('lines') ?? String(RECORDS);
  parameters.delete('lines');
  const filter = toFilter(fromQuery(parameters), Date.now());
  const most = Math.min(MOST_RECORDS, wholeNumber('lines', lines));
  const path = recordsFile(stateDir, config);
  if (path === null)
    throw new CommandError(EXIT.invalid, "log.file is stdout: the records are in the log of the agent's pod");
  const time = new Date().toISOString();
  const found = await lastRecords(path, { filter, most, bytes: SEARCHED });
  return `{"records":[${found.lines.join(',')}],"isCut":${found.isCut},"time":"${time}"}`;
}
