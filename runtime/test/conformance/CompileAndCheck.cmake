# cmake -DHEDDLEC= -DCONFORMANCE= -DSCHEDULE= -DBUNDLE= -DTARGET= -DLENGTHS= -DHEAD_DIMS= -P this
execute_process(COMMAND ${HEDDLEC} ${SCHEDULE} --target=${TARGET} --head-dim=${HEAD_DIMS}
                        --crossovers=none -o ${BUNDLE}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CONFORMANCE} --lengths=${LENGTHS} ${BUNDLE}
                COMMAND_ERROR_IS_FATAL ANY)
