import { KUBECTL_PLUGIN } from './edition.ts';
import { runNodewall } from './program.ts';
import { watchOutput } from './watch-output.ts';

// The entry of the kubectl plugin's executables (build/plugin). They are CommonJS, which cannot
// wait at its top level.
watchOutput();
void runNodewall(process.argv, KUBECTL_PLUGIN).then((status) => {
  process.exitCode = status;
});
