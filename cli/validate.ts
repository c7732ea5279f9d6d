import { formatProblem } from '../apis/validate/problem.ts';
import { loadManifests } from '../controller/watch/manifests.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { hasErrors, type InputOptions, loadConfig } from './load.ts';
import { json, print } from './output.ts';

export async function validate(options: InputOptions & { output: 'text' | 'json' }): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const { objects, problems, files } = await loadManifests(options.manifests, {
    failsafe: config.failsafe.ingress,
  });
  const invalid = hasErrors(problems);
  if (options.output === 'json') {
    await print(json({ valid: !invalid, files, policies: objects.policies.length, problems }));
  } else {
    await print(problems.map((problem) => `${formatProblem(problem)}\n`).join(''));
    const errors = problems.filter((problem) => problem.severity === 'error').length;
    const counts = [
      count(files, 'file'),
      count(objects.policies.length, 'valid policy', 'valid policies'),
      count(errors, 'error'),
      count(problems.length - errors, 'warning'),
    ];
    process.stderr.write(`${counts.join(', ')}\n`);
  }
  return invalid ? EXIT.invalid : EXIT.done;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
