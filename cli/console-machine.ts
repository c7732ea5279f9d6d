import { existsSync, watch } from 'node:fs';
import type { Config } from '../apis/config.ts';
import { isNodeData } from '../apis/node-question.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import { consoleAccess, consoleAnswer } from '../controller/console/console-requests.ts';
import { CONSOLE_FILES, StaticFiles } from '../controller/console/static-files.ts';
import { type Answer, allowed, noNode, refused } from '../controller/publish/answer.ts';
import { writeAnswer } from '../controller/publish/write-answer.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import type { LetIn } from './console-door.ts';
import { loadConfig } from './load.ts';
import { MachineDocuments } from './machine-documents.ts';
import { thisHost } from './machine-node.ts';
import { machineObjects } from './objects-in-force.ts';
import { warn } from './output.ts';

interface MachineOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly consoleFiles?: string;
}

/** Milliseconds between two readings of the counters. */
const COUNT_EVERY = 5_000;

/** The console of this machine. Throws a CommandError if this user is not root. */
export async function machineConsole({ stateDir, config: path, consoleFiles }: MachineOptions) {
  if (process.getuid?.() !== 0)
    throw new CommandError(
      EXIT.refused,
      'the console of this machine reads the state of its agent, and the kernel: this needs root',
    );
  if (!existsSync(stateDir))
    throw new CommandError(
      EXIT.usage,
      `--state-dir: there is no ${stateDir}: start the agent (nodewall agent), or give its --state-dir, or --kubeconfig for the console of a cluster`,
    );
  const config = await loadConfig(path);
  const name = thisHost().name;
  const objects = (): Promise<ClusterObjects | null> => objectsOf(stateDir, config);
  const failed = (error: unknown): void => warn('console', { error: (error as Error).message });
  const documents = new MachineDocuments({
    files: new StaticFiles(consoleFiles ?? CONSOLE_FILES),
    ...{ stateDir, config, name, objects, failed },
  });
  const count = (): void => void documents.count().catch(failed);
  count();
  const timer = setInterval(count, COUNT_EVERY);
  // Files of the agent are replaced.
  const watcher = watch(stateDir, () => documents.watchers.changed());
  return {
    of: `this machine, ${name}`,
    serve: (letIn: LetIn) => serve(documents, letIn),
    close(): void {
      clearInterval(timer);
      watcher.close();
      documents.close();
    },
  };
}

/** Null: the agent of this machine reads no manifests. */
async function objectsOf(stateDir: string, config: Config): Promise<ClusterObjects | null> {
  try {
    return await machineObjects(stateDir, config);
  } catch (error) {
    if (error instanceof CommandError && error.status === EXIT.usage) return null;
    throw error;
  }
}

async function serve(documents: MachineDocuments, { request, response, path, query }: LetIn): Promise<void> {
  const parameters = new URLSearchParams(query);
  const access = consoleAccess(path, parameters);
  const asked = { request, response, query: parameters, user: 'root' };
  const answer =
    access === null
      ? (allowed(request, ['GET', 'HEAD']) ?? (await nodeAnswer(documents, path, query)))
      : await consoleAnswer(documents, asked, access);
  if (!('streaming' in answer) && !response.destroyed) writeAnswer(request, response, answer);
}

/** As of a node view's subresources, of this machine alone. */
async function nodeAnswer(documents: MachineDocuments, path: string, query: string): Promise<Answer> {
  const [node = '', about, ...more] = path.startsWith(`${NODE_VIEWS_PATH}/`)
    ? path.slice(NODE_VIEWS_PATH.length + 1).split('/')
    : [];
  if (!isNodeData(about) || more.length > 0)
    return refused('NotFound', 'this is the console of one machine: it has no such resource');
  await documents.overview();
  if (!documents.hasNode(node)) return noNode(node);
  const answered = await documents.ask({ about, query });
  if ('text' in answered) return { code: 200, text: answered.text, type: 'application/json' };
  return refused(answered.isRefused ? 'BadRequest' : 'ServiceUnavailable', answered.problem);
}
