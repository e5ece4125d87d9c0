import { publishProperties } from './publish-properties.ts';

publishProperties(1);
