/**
 * A directory of YAML files from the start of a process to enforced rules, in an empty network
 * namespace: with `only: 'parse'` as far as plain values.
 */
import { parseYaml } from '../../apis/validate/yaml-document.ts';
import { listFiles, readFileBytes } from '../../controller/watch/files.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { splitDocuments } from '../../controller/watch/yaml-file.ts';
import { stages } from './stages.ts';
import { answer, timed, trialInput } from './trial.ts';

const { manifests, only } = trialInput<{ manifests: string; only?: 'parse' }>();
// As bin/nodewall does for each command.
process.env = { ...process.env };
/** Since the process was created. */
const start = performance.now();

async function parse(): Promise<void> {
  for (const file of (await listFiles([manifests])).files) {
    const read = await readFileBytes(file);
    if (!('bytes' in read)) throw new Error(`${file}: ${read.reason}`);
    for (const { text } of splitDocuments(read.bytes.toString())) parseYaml(text);
  }
}

if (only === 'parse') {
  const { milliseconds, cpu } = await timed(parse);
  answer({ parse: milliseconds, cpu });
} else {
  const load = await timed(() => loadManifests([manifests]));
  const agent = stages();
  const { compile, render, apply, kernel } = await agent.enforce(load.result.objects);
  answer({ start, load: load.milliseconds, compile, render, apply, kernel });
  await agent.close();
}
