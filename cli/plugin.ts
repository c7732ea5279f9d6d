import { KUBECTL_PLUGIN } from './edition.ts';
import { watchOutput } from './output.ts';
import { runNodewall } from './program.ts';

// The entry of the kubectl plugin's executables (build/plugin). They are CommonJS, which cannot
// wait at its top level.
watchOutput();
void runNodewall(process.argv, KUBECTL_PLUGIN).then((status) => {
  process.exitCode = status;
});
