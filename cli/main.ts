import './first-process.ts';
import { watchOutput } from './output.ts';
import { runNodewall } from './program.ts';

// The parser of yaml 2.9 asks for a variable at each token, and Node.js then asks the C library: of
// reading 1,000 policies that was an eighth.
process.env = { ...process.env };
watchOutput();
void runNodewall(process.argv).then((status) => {
  process.exitCode = status;
});
