import type { Problem } from '../apis/objects.ts';
import { formatProblem } from '../apis/validate/problem.ts';
import { loadManifests } from '../controller/watch/manifests.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { hasErrors, type InputOptions, loadConfig } from './load.ts';
import { json, print } from './output.ts';

export async function validate(options: InputOptions & { output: 'text' | 'json' }): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const { objects, problems, files } = await loadManifests(options.manifests, {
    failsafe: config.failsafe.ingress,
    interfaceGroups: Object.keys(config.interfaceGroups),
  });
  const invalid = hasErrors(problems);
  if (options.output === 'json') {
    await print(json({ valid: !invalid, files, policies: objects.policies.length, problems }));
  } else {
    await print(problems.map((problem) => `${formatProblem(problem)}\n`).join(''));
    const of = (severity: Problem['severity']) =>
      problems.filter((problem) => problem.severity === severity).length;
    const counts = [
      count(files, 'file'),
      count(objects.policies.length, 'valid policy', 'valid policies'),
      count(of('error'), 'error'),
      count(of('warning'), 'warning'),
      ...(of('notice') === 0 ? [] : [count(of('notice'), 'notice')]),
    ];
    process.stderr.write(`${counts.join(', ')}\n`);
  }
  return invalid ? EXIT.invalid : EXIT.done;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
