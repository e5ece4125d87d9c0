import { parse, parseAllDocuments } from 'yaml';
import { findCalls } from './command-lines.ts';

// The parts of the examples that the tests check.

interface Composed {
  readonly services: Record<
    string,
    { command?: string[]; build: { context: string; dockerfile: string }; volumes?: string[]; ports?: string[] }
  >;
  readonly volumes: Record<string, unknown>;
  readonly secrets: Record<string, unknown>;
}

export function readCompose(text: string): Composed {
  return parse(text, { merge: true }) as Composed;
}

interface Container {
  readonly command?: string[];
  readonly args: string[];
  readonly securityContext: object;
  readonly volumeMounts: readonly { name: string }[];
}
interface Pod {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly securityContext: object;
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { name: string };
    readonly secret?: { secretName: string };
    readonly persistentVolumeClaim?: { claimName: string };
  }[];
}
interface Template {
  readonly metadata: { readonly labels: object };
  readonly spec: Pod;
}
interface Kubernetes {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Record<string, string>;
  readonly spec?: {
    readonly schedule?: string;
    readonly selector?: object;
    readonly template?: Template;
    readonly jobTemplate?: { readonly spec: { readonly template: Template } };
  };
}

export function readKubernetes(text: string): Kubernetes[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Kubernetes);
}

export function getPod({ spec }: Kubernetes): Pod {
  return (spec!.template ?? spec!.jobTemplate!.spec.template).spec;
}

export function listContainers(document: Kubernetes): Container[] {
  if (document.kind !== 'CronJob' && document.kind !== 'Deployment') return [];
  const { containers, initContainers = [] } = getPod(document);
  return [...containers, ...initContainers];
}

/** The arguments of the program; for a shell, those of the line that it runs. */
export function getArguments({ command, args }: Container): string[] {
  return command === undefined ? args : findCalls(args.join(' '))[0]!;
}
